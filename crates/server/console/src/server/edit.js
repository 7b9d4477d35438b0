// Edits that do not overwrite what another client has written since the value was shown.
import { ReplyError } from '../resp/codec.js';
import { pipeline, send, transaction } from './session.js';

export class Changed extends Error {
  constructor() {
    super('The value has changed since it was shown, so nothing was written. Reload it and edit again.');
  }
}

/** Executes `commands` as a transaction if `read` still gets what `isSame` accepts. */
export async function changeIfSame(key, read, isSame, commands) {
  const [watched, current] = await pipeline([['WATCH', key], read]);
  if (watched instanceof ReplyError) throw watched;
  if (current instanceof ReplyError || !isSame(current)) {
    await send('UNWATCH');
    throw current instanceof ReplyError ? current : new Changed();
  }
  if (await transaction(commands) === null) throw new Changed();
}
