"""Completion in a shell: a script for each shell, which asks the program itself what may come next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kingly_memory.cli.commands import COMMON, Options, commands, parameters_of
from kingly_memory.cli.output import Answer, Output
from kingly_memory.cli.parser import PROGRAM, next_words
from kingly_memory.errors import InvalidInput

SCRIPTS = {
    "bash": f"""\
_kingly_memory() {{
    local found
    found=$({PROGRAM} completion bash -- "${{COMP_WORDS[@]:1:COMP_CWORD}}" 2>/dev/null)
    COMPREPLY=($(compgen -W "$found" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _kingly_memory {PROGRAM} kingly""",
    "zsh": f"""\
_kingly_memory() {{
    local -a found
    found=(${{(f)"$({PROGRAM} completion zsh -- "${{(@)words[2,CURRENT]}}" 2>/dev/null)"}})
    (( $#found )) && compadd -- $found || _files
}}
compdef _kingly_memory {PROGRAM} kingly""",
    "fish": f"""\
complete -c {PROGRAM} -c kingly \\
    -a '({PROGRAM} completion fish -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'""",
}


def completion(options: Options, _: Output) -> Answer:
    """The script for a shell or, with the words of a command line so far, what the last one may become."""
    script = SCRIPTS.get(options.shell)
    if script is None:
        raise InvalidInput("shell", f"{options.shell[:40]!r} is unknown; choose {', '.join(SCRIPTS)}")
    lines = following(options.words) if options.words else script.splitlines()
    return Answer({"completion": "\n".join(lines)}, lines)


def following(words: Sequence[str]) -> list[str]:
    """What the last of the words may become: commands, options of the one that is named, or choices of an option."""
    *before, last = words
    by_name = {one.name: one for one in commands()}
    name = ""
    for word in before:
        if word in next_words(name, by_name):
            name = f"{name} {word}".lstrip()
    command = by_name.get(name)
    own = [one for one in parameters_of(command) if one.is_option] if command else []
    takes = {f"--{one.option}": one for one in (*own, *([] if command and command.is_apart else COMMON))}
    option = takes.get(before[-1]) if before else None
    if option is not None and option.type != "flag":
        candidates: Iterable[str] = option.arg.choices
    elif last.startswith("-"):
        candidates = takes
    else:
        candidates = next_words(name, by_name)
    return [one for one in dict.fromkeys(candidates) if one.startswith(last)]
