"""The completion scripts in real shells: what the Tab key offers."""

import argparse
import os
import pty
import select
import shutil
import subprocess
import sys
import time

import pytest

from ldmaps.cli import COMMANDS, build_parser, main
from ldmaps.cli.completion import script

pytestmark = pytest.mark.slow

ZSHRC = """
PROMPT=
unsetopt beep
autoload -Uz compinit
compinit -u -d "$ZDOTDIR/dump"
{load}
compadd() {{
    # Calls with -A, -O or -D fill arrays for their callers; the others offer words to the user.
    if [[ ${{@[1,(i)(-|--)]}} == *-[a-zA-Z]#[AOD]* ]]; then builtin compadd "$@"; return; fi
    local -a offered
    builtin compadd -A offered "$@"
    print -rl -- $offered >> "$ZDOTDIR/offered"
    builtin compadd "$@"
}}
finish() {{ print done > "$ZDOTDIR/finished" }}
zle -N finish
bindkey '^I' list-choices '^G' finish
cd "$ZDOTDIR/here"
"""
EVALUATED = 'eval "$(<"$ZDOTDIR/script")"'
INSTALLED = 'fpath=("$ZDOTDIR/functions" $fpath); autoload -Uz compinit; compinit -u -d "$ZDOTDIR/dump2"'


@pytest.fixture
def folder(tmp_path):
    """A directory to complete in, with a file and nothing else."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "map.ldm").write_text("")
    return tmp_path


def zsh(line, folder, load=EVALUATED):
    """Press Tab behind ``line`` in an interactive zsh and return the words that are offered."""
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    (folder / "script").write_text(script("zsh", build_parser()))
    (folder / "functions").mkdir(exist_ok=True)
    (folder / "functions" / "_ldmaps").write_text(script("zsh", build_parser()))
    (folder / ".zshrc").write_text(ZSHRC.format(load=load))
    master, slave = pty.openpty()
    shell = subprocess.Popen(
        ["zsh", "-d", "-i"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "ZDOTDIR": str(folder), "TERM": "dumb", "LC_ALL": "C.UTF-8"},
        start_new_session=True,
    )
    os.close(slave)
    said = b""
    try:
        os.write(master, line.encode() + b"\t\x07")
        deadline = time.monotonic() + 300
        while not (folder / "finished").exists():
            assert time.monotonic() < deadline, f"zsh did not come to an end: {said.decode(errors='replace')}"
            assert shell.poll() is None, f"zsh ended: {said.decode(errors='replace')}"
            if select.select([master], [], [], 0.05)[0]:
                said += os.read(master, 4096)
    finally:
        shell.kill()
        shell.wait(timeout=60)
        os.close(master)
    offered = folder / "offered"
    return sorted(set(offered.read_text().split())) if offered.exists() else [], said.decode(errors="replace")


def fish(line, folder):
    """Return what fish offers behind ``line``."""
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    (folder / "ldmaps.fish").write_text(script("fish", build_parser()))
    code = f"source {folder / 'ldmaps.fish'}; cd {folder / 'here'}; complete -C {line!r}"
    done = subprocess.run(
        ["fish", "--no-config", "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    return sorted(row.partition("\t")[0] for row in done.stdout.splitlines()), done.stderr


def bash(line, folder):
    """Return what bash offers behind ``line``, its own defaults for what has none left out."""
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    (folder / "script").write_text(script("bash", build_parser()))
    words = [*line.split(), *([""] if line.endswith(" ") else [])]
    quoted = " ".join(f"'{word}'" for word in words)
    code = (
        f"source {folder / 'script'}; cd {folder / 'here'}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1};"
        "words=($(complete -p ldmaps)); function=${words[@]: -2:1}; $function;"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, timeout=300, check=True)
    return sorted(set(done.stdout.split())), done.stderr


CASES = [
    ("ldmaps em", ["embed"]),
    ("ldmaps ", sorted(COMMANDS)),
    ("ldmaps fit --mas", ["--mass-weighted"]),
    ("ldmaps fit --landmarks k", ["kmedoids"]),
    ("ldmaps completion z", ["zsh"]),
    ("ldmaps completion ", ["bash", "fish", "zsh"]),
    ("ldmaps info ma", ["map.ldm"]),
    ("ldmaps embed map.ldm ma", ["map.ldm"]),
    ("ldmaps embed -o ma", ["map.ldm"]),
    ("ldmaps --ver", ["--version"]),
    ("ldmaps completion bash z", []),
    ("ldmaps stream --exit-on enter:a --exit-o", ["--exit-on"]),
    # A file may have the name of a command.
    ("ldmaps embed fit --lan", []),
    ("ldmaps embed map.ldm --out", ["--output"]),
]


@pytest.mark.parametrize("shell", [bash, zsh, fish])
@pytest.mark.parametrize(("line", "expected"), CASES, ids=[case[0] for case in CASES])
def test_tab_offers_what_fits(shell, line, expected, folder):
    offered, said = shell(line, folder)
    assert offered == expected, said


def test_zsh_finds_the_script_in_its_fpath(folder):
    assert zsh("ldmaps em", folder, INSTALLED)[0] == ["embed"]


def long_options(parser):
    return sorted(
        flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")
    )


@pytest.mark.parametrize("shell", [bash, zsh, fish])
def test_every_option_of_every_command_is_offered(shell, folder):
    commands = next(
        action.choices for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    assert list(commands) == list(COMMANDS)
    for name, command in commands.items():
        if shell is zsh and name not in ("fit", "stream"):
            continue  # each takes a second
        for leftover in ("offered", "finished"):
            (folder / leftover).unlink(missing_ok=True)
        offered, said = shell(f"ldmaps {name} --", folder)
        assert offered == long_options(command), (name, said)


def test_without_shtab_one_line_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.strip().splitlines()[-1].endswith("pip install shtab")
    assert len(printed.err.strip().splitlines()) == 1
