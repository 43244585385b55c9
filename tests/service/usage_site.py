"""The page of usage with JupyterHub's own login around it, for tests and benchmarks; the books are the caller's."""

from contextlib import asynccontextmanager

from service.browse import Hub, browse


class Groups(Hub):
    """The hub's word, with the groups that some are in."""

    people = Hub.people | {"user-0042"}

    async def _tell(self, token):
        model = await super()._tell(token)
        return model and model | {"groups": ["staff"] if token == "bob" else []}


@asynccontextmanager
async def browsing(books, name=None, *, turns=None, **headers):
    """Serve the pages; give a browser in which somebody has logged in."""
    async with browse(lambda: books, name, hub=Groups, turns=turns, **headers) as client:
        yield client
