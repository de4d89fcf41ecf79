"""``ldmaps completion``: scripts for shells, generated from the parser itself."""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

from ldmaps.cli.options import add_command as add_parser

__all__ = ["add_command", "run", "script"]

_EPILOG = """\
examples:
  eval "$(ldmaps completion bash)"                                   # in ~/.bashrc
  ldmaps completion zsh > "${fpath[1]}/_ldmaps"
  ldmaps completion fish > ~/.config/fish/completions/ldmaps.fish
"""


def add_command(commands: Any) -> None:
    """Add the command."""
    parser = add_parser(
        commands, "completion", "print a completion script for a shell", "Print a completion script.", _EPILOG
    )
    parser.add_argument("shell", choices=tuple(_SCRIPTS))
    parser.add_argument("--debug", action="store_true", help="show the Python traceback of an error")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from ldmaps.cli.parser import build_parser

    print(script(arguments.shell, build_parser()), end="")


class _Option(NamedTuple):
    flags: list[str]
    help: str
    takes_value: bool
    choices: list[str]
    repeats: bool


class _Command(NamedTuple):
    name: str
    help: str
    options: list[_Option]
    words: list[str]


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """Return a shell's completion script for a parser."""
    return str(_SCRIPTS[shell](_commands(parser)))


def _commands(parser: argparse.ArgumentParser) -> list[_Command]:
    found = []
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        summaries = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for name, command in action.choices.items():
            options, words = [], []
            for entry in command._actions:
                choices = [str(choice) for choice in entry.choices or ()]
                if entry.option_strings:
                    text = (entry.help or "").replace("%%", "%")
                    repeats = isinstance(entry, argparse._AppendAction)
                    flags = list(entry.option_strings)
                    options.append(_Option(flags, text, entry.nargs != 0, choices, repeats))
                else:
                    words += choices
            found.append(_Command(name, summaries.get(name, ""), options, words))
    return found


def _bash(commands: list[_Command]) -> str:
    lines = [
        "# bash completion for ldmaps",
        "_ldmaps() {",
        '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" options="" words=""',
        "    COMPREPLY=()",
        "    if [[ $COMP_CWORD -eq 1 ]]; then",
        f'        COMPREPLY=($(compgen -W "{" ".join(c.name for c in commands)} --help --version" -- "$word"))',
        "        return",
        "    fi",
        '    case "${COMP_WORDS[1]} $before" in',
    ]
    for command in commands:
        for option in command.options:
            if option.choices:
                patterns = "|".join(f'"{command.name} {flag}"' for flag in option.flags)
                words = " ".join(option.choices)
                lines.append(f'        {patterns}) COMPREPLY=($(compgen -W "{words}" -- "$word")); return ;;')
    lines += ["    esac", '    case "${COMP_WORDS[1]}" in']
    for command in commands:
        flags = " ".join(flag for option in command.options for flag in option.flags)
        lines.append(f'        {command.name}) options="{flags}" words="{" ".join(command.words)}" ;;')
    lines += [
        "    esac",
        "    if [[ $word == -* ]]; then",
        '        COMPREPLY=($(compgen -W "$options" -- "$word"))',
        "    elif [[ -n $words && $COMP_CWORD -eq 2 ]]; then",
        '        COMPREPLY=($(compgen -W "$words" -- "$word"))',
        "    fi",
        "}",
        "complete -o default -F _ldmaps ldmaps",
    ]
    return "\n".join(lines) + "\n"


def _zsh(commands: list[_Command]) -> str:
    lines = ["#compdef ldmaps", "_ldmaps() {", "    local -a commands", "    commands=("]
    lines += [f"        {_single(f'{c.name}:{c.help}')}" for c in commands]
    lines += [
        "    )",
        "    if (( CURRENT == 2 )); then",
        "        if [[ $PREFIX == -* ]]; then",
        "            _arguments '--help[show this help]' '--version[show the version]'",
        "        else",
        "            _describe command commands",
        "        fi",
        "        return",
        "    fi",
        # The command is then what the program's name is otherwise, and places are counted behind it.
        "    shift words",
        "    (( CURRENT-- ))",
        '    case "$words[1]" in',
    ]
    for command in commands:
        lines.append(f"        {command.name}) _arguments \\")
        for option in command.options:
            text = option.help.replace("[", "(").replace("]", ")").replace(":", "\\:")
            value = ""
            if option.takes_value:
                value = f":value:({' '.join(option.choices)})" if option.choices else ":value:_files"
            # One spelling of an option rules out the others.
            before = "*" if option.repeats else f"({' '.join(option.flags)})"
            lines += [f"            {_single(f'{before}{flag}[{text}]{value}')} \\" for flag in option.flags]
        rest = f"1:word:({' '.join(command.words)})" if command.words else "*:file:_files"
        lines.append(f"            {_single(rest)} ;;")
    lines += ["    esac", "}", "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then"]
    lines += ['    _ldmaps "$@"', "else", "    compdef _ldmaps ldmaps", "fi"]
    return "\n".join(lines) + "\n"


def _fish(commands: list[_Command]) -> str:
    # The command is the second word; the same word behind it is the name of a file.
    first = "-n 'test (count (commandline -opc)) -eq 1'"
    lines = [
        "# fish completion for ldmaps",
        f"complete -c ldmaps {first} -f -l help -d 'show this help'",
        f"complete -c ldmaps {first} -f -l version -d 'show the version'",
    ]
    for command in commands:
        lines.append(f"complete -c ldmaps {first} -f -a {command.name} -d {_single(command.help)}")
    for command in commands:
        chosen = f"contains -- {command.name} (commandline -opc)[2]"
        if command.words:
            lines.append(f"complete -c ldmaps -n '{chosen}' -f")
            once = f"{chosen}; and test (count (commandline -opc)) -eq 2"
            lines.append(f"complete -c ldmaps -n '{once}' -f -a '{' '.join(command.words)}'")
        for option in command.options:
            parts = []
            for flag in option.flags:
                parts.append(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}")
            if option.choices:
                parts.append(f"-x -a '{' '.join(option.choices)}'")
            elif option.takes_value:
                parts.append("-r")
            lines.append(f"complete -c ldmaps -n '{chosen}' {' '.join(parts)} -d {_single(option.help)}")
    return "\n".join(lines) + "\n"


def _single(text: str) -> str:
    """Quote for a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


_SCRIPTS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
