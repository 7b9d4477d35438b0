//! The HELP subcommand of every container, made from the table.

use crate::ctx::Ctx;
use crate::fail::Outcome;
use crate::spec::Meta;
use petrel_resp::Dialect;
use petrel_table::Syntax;

/// `<container> HELP`. Serves any command with subcommands, and commands such as `DEBUG` that parse
/// their subcommands themselves, by [`Meta::help`].
pub fn help(ctx: &mut Ctx<'_>) -> Outcome {
    help_on(ctx, |_| true)
}

/// Like [`help`], but lists only subcommands that `is_shown` accepts by name.
pub fn help_on(ctx: &mut Ctx<'_>, is_shown: impl Fn(&str) -> bool) -> Outcome {
    let Some(container) = ctx.exec.registry().find(ctx.arg(0)) else { return Ok(()) };
    let container = container.spec;
    let mut lines = vec![format!(
        "{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        container.meta.name.to_ascii_uppercase()
    )];
    entries(container.meta.help, &mut lines);
    let subcommands = container.subcommands.iter().map(|sub| sub.meta);
    for subcommand in subcommands.filter(|meta| meta.name != "help" && is_shown(meta.name)) {
        entry(subcommand, ctx.dialect(), &mut lines);
    }
    entries(&[("HELP", "Print this help.")], &mut lines);

    ctx.reply.array(lines.len());
    for line in lines {
        ctx.reply.simple(&line);
    }
    Ok(())
}

/// Lines of a subcommand: its syntax, and an indented summary.
fn entry(meta: &Meta, dialect: Dialect, lines: &mut Vec<String>) {
    if dialect.is_valkey() && !meta.help_valkey.is_empty() {
        return entries(meta.help_valkey, lines);
    }
    if !meta.help.is_empty() {
        return entries(meta.help, lines);
    }
    let line = format!("{} {}", meta.name.to_ascii_uppercase(), Syntax(meta.arguments));
    lines.push(line.trim_end().to_owned());
    lines.push(format!("    {}", meta.summary));
}

fn entries(entries: &[(&str, &str)], lines: &mut Vec<String>) {
    for (syntax, text) in entries {
        lines.push((*syntax).to_owned());
        lines.extend(text.split('\n').map(|line| format!("    {line}")));
    }
}
