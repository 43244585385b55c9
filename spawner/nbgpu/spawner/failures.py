"""Errors of ours as the hub's exceptions, and back: what its pages and its API show of a start that failed."""

from jupyterhub.spawner import SpawnException
from tornado import web

from nbgpu.core.errors import NbgpuError, Refusal, StoreError
from nbgpu.core.texts import Text
from nbgpu.spawner.endings import Ending, explain_end
from nbgpu.spawner.i18n import DEFAULT, Translator


class SpawnFault(web.HTTPError):
    """A start that failed through no choice of the user's; JupyterHub shows `jupyterhub_message` on its pages."""

    def __init__(self, error: NbgpuError, translator: Translator) -> None:
        # Without the database nothing starts for now; that is no defect of the hub.
        super().__init__(503 if isinstance(error, StoreError) else 500, "%s", str(error))
        self.nbgpu_error = error
        self.jupyterhub_message = _say(error, translator)


class SpawnRefusal(SpawnException):  # type: ignore[misc]  # JupyterHub has no types
    """A start that a person asked for and can't have, with the reason label that JupyterHub counts it by."""

    def __init__(self, error: Refusal, translator: Translator) -> None:
        said = translator.say(error.text)
        super().__init__(said, reason=error.reason, status_code=error.status_code, log_message=str(error))
        self.nbgpu_error = error
        self.jupyterhub_message = said  # else the form shows the exception's own text, class name and all


def to_spawn_exception(error: NbgpuError, translator: Translator) -> web.HTTPError:
    """Return the hub's exception for an error of ours: a refusal with its reason label, or a fault.

    It speaks to whoever asked for the start, in their language; the log stays English.
    """
    return SpawnRefusal(error, translator) if isinstance(error, Refusal) else SpawnFault(error, translator)


def explain_failure(exception: BaseException | None, message: str | None) -> Ending:
    """Return what a page says of a failed start: of ours in the reader's language, of others the hub's message."""
    error = getattr(exception, "nbgpu_error", None)
    if isinstance(error, Refusal):
        return Ending(why=error.text if isinstance(error.text, Text) else Text(str(error)))
    said = str(error or message or "")
    return explain_end(f"failed start: {said}" if said else "")


def _say(error: NbgpuError, translator: Translator) -> str:
    if translator.language == DEFAULT:
        return str(error)
    ending = explain_end(f"failed start: {error}")
    return f"{translator.say(ending.why)} {ending.words}".strip()
