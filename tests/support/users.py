"""JupyterHub users whose servers start and stop through the hub's own `User.spawn` and `User.stop`, without a hub."""

import asyncio
from typing import Any

from jupyterhub import orm
from jupyterhub.auth import DummyAuthenticator
from jupyterhub.objects import Hub
from jupyterhub.user import User, UserDict
from traitlets.config import Config

from nbgpu.spawner.flavored import FlavoredSpawner


class Users:
    """Makes users by name in a database in memory; each has real spawners of the class under test."""

    def __init__(self, spawner_class: type[FlavoredSpawner], config: Config) -> None:
        self.db = orm.new_session_factory("sqlite:///:memory:")()
        self._make_defaults()
        self._settings: dict[str, Any] = {
            "db": self.db,
            "hub": Hub(),
            "config": config,
            "spawner_class": spawner_class,
            "authenticator": DummyAuthenticator(allow_all=True),
            "internal_ssl": False,
            "base_url": "/",
            "public_url": "",
            "subdomain_host": "",
        }
        self._users = UserDict(lambda: self.db, self._settings)

    def _make_defaults(self) -> None:
        from jupyterhub import roles

        for role in roles.get_default_roles():
            roles.create_role(self.db, role)
        self.db.add(orm.OAuthClient(identifier="jupyterhub", description="the hub"))
        self.db.commit()

    def __getitem__(self, name: str) -> User:
        orm_user = orm.User.find(self.db, name)
        if orm_user is None:
            orm_user = orm.User(name=name)
            self.db.add(orm_user)
            self.db.commit()
            from jupyterhub import roles

            roles.assign_default_roles(self.db, entity=orm_user)
        return self._users[orm_user]

    def close(self) -> None:
        """Close the database."""
        engine = self.db.get_bind()
        self.db.close()
        engine.dispose()


async def start(user: User, server: str = "", **options: Any) -> None:
    """Start a server as the hub does, until it answers."""
    await user.spawn(server, options=options)


async def cancel(user: User, task: "asyncio.Task[None]", server: str = "") -> None:
    """Cancel a start as the hub's Stop button does: cancel, then stop."""
    task.cancel()
    await asyncio.wait([task])
    await user.stop(server)
