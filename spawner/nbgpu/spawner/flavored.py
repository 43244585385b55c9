"""The engine-neutral half of our spawners: lease, start in phases, and a clean end whatever happens.

An engine's subclass launches, asks and ends one server; when and with which devices is decided here. What a start
made is undone by the same start if it fails, times out or is cancelled in any phase.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

from jupyterhub.spawner import Spawner
from tornado import web
from traitlets import Float, Unicode, default

from nbgpu.core.errors import EngineError, EngineUnavailable, NbgpuError, ServerDied
from nbgpu.core.homes import OnDelete
from nbgpu.core.leases import REASON_LENGTH, Lease, LeaseState
from nbgpu.core.menu import Choice
from nbgpu.spawner.admitting import AdmittingMixin
from nbgpu.spawner.endings import fit_reason
from nbgpu.spawner.failures import to_spawn_exception
from nbgpu.spawner.progress import Phase, ProgressFeed, Report
from nbgpu.spawner.question import SharedQuestion
from nbgpu.spawner.readiness import wait_until_ready
from nbgpu.spawner.threads import in_thread, only_asking, see_through

_LONGEST_WAIT = 3600  # seconds: JupyterHub's own limit, which counts the wait for a turn, is this much longer
_STATE_KEYS = ("session_id", "flavor", "image_slug", "image_id")


class FlavoredSpawner(AdmittingMixin, Spawner):  # type: ignore[misc]  # JupyterHub has no types
    """Starts servers of a flavor. Subclasses implement the methods below `# Engine`."""

    launch_timeout = Float(
        120, config=True, help="Seconds that a server may take to start and answer, the wait for its turn not counted."
    )
    service_url = Unicode(config=True, help="Where servers reach the `nbgpu` service; empty: they report to nobody.")
    before_stop = Float(
        0, config=True, help="Seconds that a server may still do something before it is stopped; 0: it may not."
    )
    session_id = Unicode(help="UUID of the running session; empty when there is none.")
    flavor = Unicode(help="Slug of the running server's flavor.")
    image_slug = Unicode(help="Slug of the running server's image.")
    image_id = Unicode(help="The engine's immutable id of that image.")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.device_uuids: tuple[str, ...] = ()
        self._ended_at: datetime | None = None  # the engine's word of the session that has just ended
        self._was_ready = True  # false from the lease until the server answers
        self._work: asyncio.Task[str] | None = None
        self._feed = ProgressFeed()
        self._question = SharedQuestion()  # the hub's home page and each start wait for its answer
        self._notice = asyncio.Lock()

    # Engine

    async def launch(self, lease: Lease, choice: Choice) -> str:
        """Create and start the server; return its URL without path, like "http://172.18.0.2:8888"."""
        raise NotImplementedError

    async def find_started_at(self) -> datetime:
        """Return when the engine started the server."""
        raise NotImplementedError

    async def find_end(self) -> str | None:
        """Return None while the server runs, else why it ended, with its last words. Raises EngineUnavailable."""
        raise NotImplementedError

    async def find_last_words(self) -> str:
        """Return the server's last log lines as a sentence; empty when it said nothing."""
        raise NotImplementedError

    async def shut_down(self, *, now: bool) -> datetime | None:
        """End the server, remove what `launch` made and see it gone. Idempotent. Raises EngineError.

        Return the engine's own time of the end; None where nothing ran, or the engine does not know it any more.
        """
        raise NotImplementedError

    async def run_before_stop(self, seconds: float) -> None:
        """Have a running server do what its image and its user want done before it is stopped, for so long at most.

        What fails is logged, and never keeps it from being stopped.
        """
        raise NotImplementedError

    async def take_up(self, lease: Lease) -> str | None:
        """Take up the server of an open lease where it still runs; return its URL, else None."""
        raise NotImplementedError

    async def remove_home(self, volume: str) -> None:
        """Delete a home with all files in it. Idempotent."""
        raise NotImplementedError

    async def mark_archived(self, volume: str) -> None:
        """Mark a home, beside it, as one that nobody gets again. Idempotent."""
        raise NotImplementedError

    async def is_archived(self, volume: str) -> bool:
        """Whether a home is marked so. Raises EngineError."""
        raise NotImplementedError

    async def clear_leftovers(self) -> dict[str, datetime | None]:
        """Remove what an earlier, broken life of this server left; return when each session ended, as `shut_down` does.

        Raises NameTaken for what is not ours.
        """
        raise NotImplementedError

    @default("start_timeout")
    def _default_start_timeout(self) -> int:
        return int(self.launch_timeout) + _LONGEST_WAIT

    # Life

    async def start(self) -> str:
        """Start the server; return its URL. Cancelling returns at once, while the undoing goes on."""
        await self._settle()
        self._work = asyncio.ensure_future(self._start())
        try:
            await asyncio.wait([self._work])
        except asyncio.CancelledError:
            self._work.cancel()
            raise
        return self._work.result()

    async def _start(self) -> str:
        self._feed = ProgressFeed()
        translator = self.translator  # the one who starts may be gone when it fails
        try:
            return await self._start_in_phases()
        except BaseException as error:
            if isinstance(error, TimeoutError):
                error = await self._explain_timeout()
            await self._undo(error)
            if isinstance(error, NbgpuError):
                raise to_spawn_exception(error, translator) from error
            raise
        finally:
            self._feed.close()

    async def _start_in_phases(self) -> str:
        choice = self.take_choice()
        earlier = await in_thread(self.desk.find_open, self.server_ref)
        taken_up = await self._take_up(earlier, choice) if earlier is not None else None
        if taken_up is not None:
            return taken_up
        ends = await self.clear_leftovers()
        if earlier is not None:
            ended_at = ends.get(earlier.session_id)
            await in_thread(self.desk.release, earlier.session_id, "left over by an earlier start", ended_at)
        self._feed.report(Phase.LEASE, Report.leasing(choice.flavor.display_name))
        lease = await see_through(self._acquire(choice))
        async with self.desk.turnstile.turn(self._report_place), asyncio.timeout(self.launch_timeout):
            return await self._launch(lease, choice)

    async def _acquire(self, choice: Choice) -> Lease:
        lease = await only_asking(self.desk.acquire, self.server_ref, choice, self.group_names)
        self._take(lease)  # here, so that a cancellation meanwhile finds what there is to undo
        self._was_ready = False
        return lease

    async def _launch(self, lease: Lease, choice: Choice) -> str:
        self._feed.report(Phase.IMAGE, Report.image(lease.image))
        self._feed.report(Phase.CONTAINER, Report.CONTAINER)
        url = await self.launch(lease, choice)
        await in_thread(self.desk.activate, lease.session_id, await self.find_started_at())
        self._feed.report(Phase.SERVER, Report.SERVER)
        await wait_until_ready(f"{url}{self.server.base_url}api", self.find_end)
        self._was_ready = True
        return url

    def _report_place(self, place: int) -> None:
        self._feed.report(Phase.QUEUE, Report.queued(place))

    async def _take_up(self, lease: Lease, choice: Choice) -> str | None:
        """Return the URL of this server where it runs already, as asked for, and only the hub had lost it."""
        if lease.state is not LeaseState.ACTIVE or (lease.flavor, lease.image) != (choice.flavor.slug, choice.image):
            return None
        url = await self.take_up(lease)
        if url is None:
            return None
        self._take(lease)
        self._feed.report(Phase.SERVER, Report.TAKING_UP)
        async with asyncio.timeout(self.launch_timeout):
            await wait_until_ready(f"{url}{self.server.base_url}api", self.find_end)
        return url

    async def _explain_timeout(self) -> NbgpuError:
        text = f"The server did not answer within {self.launch_timeout:g} s and was ended."
        try:
            return EngineError(f"{text} {await self.find_last_words()}".strip())
        except NbgpuError:
            return EngineError(text)

    async def _undo(self, error: BaseException) -> None:
        """Give back what the start has taken so far; what can't be undone now keeps its lease and is logged."""
        reason = "cancelled" if isinstance(error, asyncio.CancelledError) else f"failed start: {error}"
        try:
            await self._end(now=True)
        except NbgpuError as trouble:
            self.log.error("Undoing the start of %s is left to the reconciler: %s", self._log_name, trouble)
            await self._give_up()
            return
        await self._release(reason)
        if isinstance(error, EngineUnavailable) and self.session_id:
            self.desk.doubt(self.session_id)  # a call without an answer may have had its effect

    async def _give_up(self) -> None:
        """Leave a session that can't be ended now to the reconciler."""
        if self.session_id:
            await in_thread(self.desk.mark_ending, self.session_id, billable=False)
            self.desk.doubt(self.session_id)

    async def _settle(self) -> None:
        """Wait until a start that was cancelled has undone all it made."""
        if self._work is not None and not self._work.done():
            await asyncio.wait([self._work])

    async def poll(self) -> int | str | None:
        """Return None while the server runs, or while that can't be known; else why it ended."""
        await self._settle()
        if not self.session_id:
            return 0
        try:
            end = await self._ask_for_end()
        except EngineUnavailable as error:
            self.log.warning("Can't ask about %s, taken as running: %s", self._log_name, error)
            return None
        if end is not None:
            # JupyterHub won't call stop() on a dead server: this is the place to give its devices back.
            await self.stop(now=True, reason=end)
        return end

    async def poll_and_notify(self) -> int | str | None:
        """Ask, and have the hub clear up after a server that has ended; return as `poll` does.

        One at a time: JupyterHub's own returns to whoever asks second while the first still clears up, and the start
        that the second then makes is what the first one stops.
        """
        async with self._notice:
            found: int | str | None = await super().poll_and_notify()
            return found

    async def _ask_for_end(self) -> str | None:
        if self.pending == "check":
            return await self._check_at_hub_start()
        return await self._question.ask(self.session_id, self.find_end)

    async def _check_at_hub_start(self) -> str | None:
        """Return None where a server that the hub finds at its start answers, else why it ended or is to be ended.

        The hub's own check goes on for minutes where an address takes connections and never answers, and meanwhile
        the server can be neither used nor stopped.
        """
        try:
            async with asyncio.timeout(self.http_timeout):
                await wait_until_ready(f"{self.server.url}api", self.find_end)
        except TimeoutError:
            return f"The server did not answer within {self.http_timeout:g} s and was ended."
        except ServerDied as death:
            return str(death)
        return None

    async def stop(self, now: bool = False, reason: str = "stopped") -> None:  # noqa: FBT001, FBT002 - JupyterHub's signature
        """End the server and give its devices back once that is certain."""
        await self._settle()
        try:
            if self.session_id:
                await in_thread(self.desk.mark_ending, self.session_id)
        except NbgpuError as error:
            # What somebody stopped must end, and must not be taken for lost and taken up again.
            self.log.warning("The end of %s could not be noted, it is ended all the same: %s", self._log_name, error)
        if not now and self.session_id and self.before_stop > 0:
            await self.run_before_stop(self.before_stop)
        try:
            await self._end(now=now)
        except NbgpuError:
            self.desk.doubt(self.session_id)
            raise
        await self._release(reason)

    async def rename(self, old_name: str, new_name: str) -> None:
        """Refuse a new name while the server has a lease under the old one."""
        if self.session_id:
            raise web.HTTPError(400, f"Stop the server “{old_name}” before it is renamed to “{new_name}”.")

    async def delete_forever(self) -> None:
        """Retire the home of a user who is deleted; a named server that is deleted has none of its own."""
        if self.name:
            return
        retired = await in_thread(self.desk.retire_home, self.user.name)
        if retired is None:
            return
        volume, how = retired
        await (self.remove_home(volume) if how is OnDelete.WIPE else self.mark_archived(volume))

    async def find_home(self, proposed: str) -> str:
        """Return the user's home volume, which is `proposed` or an earlier name, else one with a number.

        Our database knows which homes are archived. Should it be lost, the mark beside a home still keeps it from the
        next person of the name.
        """
        while True:
            volume = await in_thread(self.desk.home_volume, self.user.name, proposed)
            if not await self.is_archived(volume):
                return volume
            await in_thread(self.desk.pass_over_home, self.user.name)

    async def _end(self, *, now: bool) -> None:
        """End the server. The time is kept: should the release fail, the next attempt finds nothing to ask."""
        self._ended_at = await self.shut_down(now=now) or self._ended_at

    async def _release(self, reason: str) -> None:
        if self.session_id:
            await in_thread(
                self.desk.release,
                self.session_id,
                fit_reason(reason, REASON_LENGTH),
                self._ended_at,
                billable=self._was_ready,
            )

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the phases of the start that is under way."""
        async for event in self._feed.follow():
            yield event

    # What survives a hub restart

    def _take(self, lease: Lease) -> None:
        self._ended_at, self._was_ready = None, True
        self.session_id, self.flavor = lease.session_id, lease.flavor
        self.image_slug, self.image_id = lease.image, lease.image_id
        self.device_uuids = lease.allocation.device_uuids

    def get_state(self) -> dict[str, Any]:
        """Return what the hub's database keeps of a running server."""
        state: dict[str, Any] = super().get_state()
        if self.session_id:
            state |= {key: getattr(self, key) for key in _STATE_KEYS}
            state["device_uuids"] = list(self.device_uuids)
        return state

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up a running server after a hub restart."""
        super().load_state(state)
        for key in _STATE_KEYS:
            setattr(self, key, state.get(key, ""))
        self.device_uuids = tuple(state.get("device_uuids", ()))
        self._ended_at, self._was_ready = None, True

    def clear_state(self) -> None:
        """Forget the ended session."""
        super().clear_state()
        self.load_state({})
