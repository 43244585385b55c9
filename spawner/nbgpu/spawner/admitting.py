"""How a start is chosen and admitted: the spawn form, and the one way that form, REST and URL starts all pass."""

from collections.abc import Awaitable, Callable
from typing import Any

from jupyterhub.spawner import Spawner
from traitlets import Callable as CallableTrait
from traitlets import default
from traitlets.config import LoggingConfigurable

from nbgpu.core.errors import InvalidOptions, NbgpuError, NotAllowed, Refusal
from nbgpu.core.leases import ServerRef
from nbgpu.core.menu import Choice, parse_options
from nbgpu.core.texts import Text
from nbgpu.spawner.desk import Desk
from nbgpu.spawner.failures import to_spawn_exception
from nbgpu.spawner.form import render_form
from nbgpu.spawner.i18n import Translator, translator_for
from nbgpu.spawner.threads import only_asking


class AdmittingMixin(LoggingConfigurable):
    """The part of a spawner that shows the menu and judges what is asked for; the rest takes the choice and starts it.

    JupyterHub wants a Spawner to be whole, so this is none by itself.
    """

    # The Spawner's own.
    user: Any
    name: str
    handler: Any
    orm_spawner: Any

    get_desk = CallableTrait(config=True, help="Function that returns the admission desk.")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._choice: Choice | None = None
        self._admission_error: NbgpuError | None = None
        self._last_translator: Translator | None = None

    @property
    def desk(self) -> Desk:
        """The admission desk of this hub."""
        desk: Desk = self.get_desk()
        return desk

    @property
    def server_ref(self) -> ServerRef:
        """This server, in the domain's words."""
        return ServerRef(self.user.name, self.name)

    @property
    def group_names(self) -> frozenset[str]:
        """The groups of the server's user."""
        return frozenset(group.name for group in self.user.groups)

    @property
    def translator(self) -> Translator:
        """The translator for whoever looks at the form or starts the server; else for who did last."""
        if self.handler is not None or self._last_translator is None:
            self._last_translator = translator_for(self.handler)
        return self._last_translator

    @default("options_form")
    def _default_options_form(self) -> Callable[[Spawner], Awaitable[str]]:
        return render_options_form

    @default("options_from_form")
    def _default_options_from_form(self) -> Callable[[dict[str, list[str]]], dict[str, str]]:
        return lambda form: read_form(form, self.translator)

    @default("apply_user_options")
    def _default_apply_user_options(self) -> Callable[[Spawner, Any], Awaitable[None]]:
        return admit_options

    async def admit(self, user_options: object) -> None:
        """Judge the options of this start, whatever their way in. A refusal is kept for `start` to raise.

        JupyterHub logs a traceback for whatever this raises, so that anybody could flood the log; from `start`, which
        follows at once, a refusal is one line.
        """
        self._choice = None
        try:
            self._choice = await only_asking(self.desk.admit, user_options, self.group_names)
        except NbgpuError as error:
            self._admission_error = error
            if isinstance(error, InvalidOptions | NotAllowed):
                self.orm_spawner.user_options = None  # a wrong choice must not be the next start's default
            return
        # What was chosen, defaults filled in: the admin page, the API and the next start read it here.
        self.user_options = self._choice.to_options()
        if self.orm_spawner.user_options != self.user_options:  # the hub's database is not written for nothing
            self.orm_spawner.user_options = self.user_options

    def take_choice(self) -> Choice:
        """Return what this start was admitted with, once. Raises what admission found wrong."""
        choice, error = self._choice, self._admission_error
        self._choice = self._admission_error = None
        if choice is None:
            raise error or InvalidOptions(Text("This start was not admitted: choose a flavor again."))
        return choice


async def render_options_form(spawner: AdmittingMixin) -> str:
    """Return the inside of the spawn form: the cards and images as they are now."""
    try:
        options, name = spawner.orm_spawner.user_options or {}, spawner.user.name
        view = await only_asking(spawner.desk.view, spawner.group_names, options, username=name)
    except NbgpuError as error:
        raise to_spawn_exception(error, spawner.translator) from None
    return render_form(view, spawner.translator)


def read_form(form: dict[str, list[str]], translator: Translator) -> dict[str, str]:
    """Return a form's fields as options. Raises SpawnException."""
    try:
        return parse_options(form)
    except Refusal as refusal:
        raise to_spawn_exception(refusal, translator) from None


async def admit_options(spawner: AdmittingMixin, user_options: object) -> None:
    """Judge the options of a start: the hook that form, REST and URL starts all pass."""
    await spawner.admit(user_options)
