// Bundles src/ into dist/. With --check, bundles into a temporary directory and compares it with dist/.
import { build } from 'esbuild';
import { mkdtemp, mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(fileURLToPath(import.meta.url));
const dist = join(root, 'dist');
const BUNDLED = ['preact', 'uplot'];
/** Upper bound on the size of dist/, which is compiled into the server. */
const MAX_BYTES = 400 * 1024;

async function licences() {
  const texts = await Promise.all(BUNDLED.map(async (name) => {
    const { version, license } = JSON.parse(await readFile(join(root, 'node_modules', name, 'package.json'), 'utf8'));
    const text = await readFile(join(root, 'node_modules', name, 'LICENSE'), 'utf8');
    return `${name} ${version} (${license})\n\n${text.replace(/\r\n/g, '\n').trim()}\n`;
  }));
  return texts.join('\n----\n\n');
}

async function bundle(directory) {
  await mkdir(directory, { recursive: true });
  await build({
    absWorkingDir: root,
    entryPoints: { app: 'src/main.jsx' },
    outdir: directory,
    bundle: true,
    minify: true,
    format: 'iife',
    target: 'es2022',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    legalComments: 'none',
    charset: 'utf8',
    banner: { js: '/* Licences of bundled libraries: LICENSES.txt */' },
    logLevel: 'warning',
  });
  for (const name of ['index.html', 'icon.svg']) {
    await writeFile(join(directory, name), await readFile(join(root, 'src', name)));
  }
  await writeFile(join(directory, 'LICENSES.txt'), await licences());
}

async function contents(directory) {
  const names = (await readdir(directory)).sort();
  return new Map(await Promise.all(names.map(async (name) => [name, await readFile(join(directory, name))])));
}

async function check() {
  const directory = await mkdtemp(join(tmpdir(), 'petrel-console-'));
  try {
    await bundle(directory);
    const [built, kept] = await Promise.all([contents(directory), contents(dist)]);
    const names = [...new Set([...built.keys(), ...kept.keys()])];
    const stale = names.filter((name) => !built.has(name) || !kept.has(name) || !built.get(name).equals(kept.get(name)));
    if (stale.length > 0) throw new Error(`dist differs from src: ${stale.join(', ')}; run npm run build and commit dist`);
    return built;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function report(files) {
  let total = 0;
  for (const [name, bytes] of files) {
    console.log(`${String(bytes.length).padStart(8)}  ${name}`);
    total += bytes.length;
  }
  console.log(`${String(total).padStart(8)}  of ${MAX_BYTES} bytes`);
  if (total > MAX_BYTES) throw new Error('dist is too large');
}

if (process.argv.includes('--check')) {
  report(await check());
} else {
  await rm(dist, { recursive: true, force: true });
  await bundle(dist);
  report(await contents(dist));
}
