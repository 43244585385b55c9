"""Pages of lists, as far as the client reads them."""

from pydantic import BaseModel

from nbgpu.service.session_answers import ListedSession


class SessionPage(BaseModel):
    """A page of sessions; `next` is the cursor of the page after it."""

    sessions: list[ListedSession]
    next: str | None = None
