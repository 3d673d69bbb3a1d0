"""Usage errors of the command line in one line, as hindex's own errors are."""

from __future__ import annotations

import click

from hindex.validation import closest, suggestion


def usage_told(error: click.ClickException) -> str:
    """Return click's message in one line: the mistake, similar names, and where to find the others."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if isinstance(error, click.NoSuchOption) and context is not None:
        return _no_option(error.option_name, context)
    message = " ".join(error.format_message().split()).rstrip(".")
    told = message[:1].lower() + message[1:]
    if context is None:
        return f"{told}; see hindex --help"
    if _takes_statement(context.command) and type(error) is click.UsageError:
        # words of a statement that the shell took for arguments of their own
        told += "; a statement is one argument: put it into quotes"
    # click breaks a long one into lines
    usage = " ".join(context.get_usage().split())
    return f"{told}; {usage[:1].lower()}{usage[1:]}; see {context.command_path} --help"


def _no_option(name: str, context: click.Context) -> str:
    """An option that a command does not have: it may be one of those that stand before the command."""
    own, above = _options(context), [] if context.parent is None else _options(context.parent)
    near = closest(name, [*own, *above], 1)
    remedy = f"{context.command_path} --help lists those there are"
    if context.parent is not None and near and near[0] not in own:
        way = f"{context.parent.command_path} {near[0]} ... {context.info_name}"
        remedy = f"{near[0]} stands before the command: {way} ..."
    else:
        remedy = suggestion(name, own, str) + remedy
    return f"{context.command_path} has no option {name}; {remedy}"


def _options(context: click.Context) -> list[str]:
    """The names of a command's options, ``-h`` and ``--help`` among them."""
    return [name for item in context.command.get_params(context) for name in item.opts if name[:1] == "-"]


def _takes_statement(command: click.Command) -> bool:
    return any(item.name in ("statement", "select") and item.nargs == 1 for item in command.params)
