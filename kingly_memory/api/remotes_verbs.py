"""How the memory is, and what waits for remotes."""

from __future__ import annotations

from typing import Annotated

from kingly_memory.api.declare import Answer, Arg, MemoryRouter, RemoteName, verb

STATES = ("pending", "leased", "dead")


@verb("status", "memory_status", "lifecycle", title="See the memory's status", reads=True)
def status(memory: MemoryRouter) -> Answer:
    """See how many memories there are, whether the remote is connected, and what waits for it.

    Example: {}
    Answers: home project durability memories link outbox versions …
    """
    return memory.status()


@verb("sync")
def sync(
    memory: MemoryRouter,
    *,
    timeout: Annotated[float, Arg("seconds to spend at most", "S")] = 60.0,
    remote_label: RemoteName | None = None,
) -> Answer:
    """Try the remote now and deliver what waits for it."""
    return memory.sync(timeout, remote_label)


@verb("remotes list", reads=True)
def remotes(memory: MemoryRouter) -> Answer:
    """List the remotes that this home knows, in use or not, and what waits for each; the same as `remotes`."""
    return memory.remotes()


@verb("remotes forget")
def forget_remote(
    memory: MemoryRouter, address: Annotated[str, Arg("its name or address, as `remotes list` shows it", "REMOTE")]
) -> Answer:
    """Take a remote out of this home, with all that waits for it; the memories stay."""
    return memory.forget_remote(address)


@verb("outbox list", reads=True)
def outbox(
    memory: MemoryRouter,
    *,
    states: Annotated[list[str] | None, Arg("only entries that are", "STATE", option="state", choices=STATES)] = None,
    remote_label: RemoteName | None = None,
) -> Answer:
    """List what the remote has not acknowledged."""
    return memory.outbox(states or STATES, remote_label)


@verb("outbox retry")
def retry(
    memory: MemoryRouter,
    ids: Annotated[list[str] | None, Arg("key or id of a memory", "KEY_OR_ID")] = None,
    *,
    remote_label: RemoteName | None = None,
) -> Answer:
    """Send dead entries again: the named ones, or all."""
    return memory.outbox_retry(ids, remote_label)


@verb("outbox drop")
def drop(
    memory: MemoryRouter,
    ids: Annotated[list[str], Arg("key or id of a memory", "KEY_OR_ID")],
    *,
    remote_label: RemoteName | None = None,
) -> Answer:
    """Stop sending the named memories; they stay on this machine."""
    return memory.outbox_drop(ids, remote_label)
