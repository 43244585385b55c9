"""Who may log in: `[auth]` of the settings to JupyterHub's authenticator."""

import ipaddress
from importlib.metadata import entry_points
from typing import Any

from jupyterhub.auth import Authenticator
from jupyterhub.authenticators.shared import SharedPasswordAuthenticator
from traitlets.config import Config
from traitlets.utils.importstring import import_item

from nbgpu.core.errors import SettingsError
from nbgpu.settings.schema import AuthSettings, Settings
from nbgpu.wiring.deployment import Deployment
from nbgpu.wiring.strict_handlers import with_strict_handlers

DEMO_ADMIN = "admin"


def configure_auth(c: Config, settings: Settings, deployment: Deployment) -> None:
    """Set the authenticator and its options. Raises SettingsError."""
    if settings.auth.demo:
        _configure_demo(c, settings, deployment)
        return
    authenticator = find_authenticator(settings.auth)
    check_options(authenticator, settings.auth)
    c.JupyterHub.authenticator_class = with_strict_handlers(authenticator)
    for name, value in settings.auth.options.items():
        setattr(c[authenticator.__name__], name, value)


def _configure_demo(c: Config, settings: Settings, deployment: Deployment) -> None:
    check_demo_address(settings.hub.address)
    c.JupyterHub.authenticator_class = with_strict_handlers(SharedPasswordAuthenticator)
    c.SharedPasswordAuthenticator.user_password = deployment.secret("demo-password", bytes_=6)
    c.SharedPasswordAuthenticator.admin_password = deployment.secret("demo-admin-password", bytes_=20)
    c.SharedPasswordAuthenticator.admin_users = {DEMO_ADMIN}
    c.SharedPasswordAuthenticator.allow_all = True


def check_demo_address(address: str) -> None:
    """Refuse to serve the demo login to a network: everybody shares its password."""
    if not is_loopback(address):
        raise SettingsError(
            f'nbgpu.toml: hub: address = "{address}": the demo login is for loopback (127.0.0.1) only. '
            'Set class in [auth] to a real authenticator, like "github" or "pam", to serve on a network.'
        )


def is_loopback(address: str) -> bool:
    """Whether an address is reached from this machine alone."""
    try:
        return address == "localhost" or ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def find_authenticator(auth: AuthSettings) -> type[Any]:
    """Return the authenticator class that `[auth] class` names. Raises SettingsError."""
    known = {entry.name: entry for entry in entry_points(group="jupyterhub.authenticators")}
    try:
        found = known[auth.class_name].load() if auth.class_name in known else import_item(auth.class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(
            f'nbgpu.toml: auth: class = "{auth.class_name}": can\'t be loaded: {error}. '
            f'Allowed is "demo", "package.module.Class", or one of: {", ".join(sorted(known))}.'
        ) from error
    if not (isinstance(found, type) and issubclass(found, Authenticator)):
        raise SettingsError(f'nbgpu.toml: auth: class = "{auth.class_name}": is not a JupyterHub authenticator.')
    return found


def check_options(authenticator: type[Any], auth: AuthSettings) -> None:
    """Refuse options that the authenticator does not have: a misspelt rule would let strangers in, or nobody."""
    allowed = authenticator.class_traits(config=True)
    for name in auth.options:
        if name not in allowed:
            raise SettingsError(
                f"nbgpu.toml: auth: options: {name}: {authenticator.__name__} has no such option; "
                f"allowed: {', '.join(sorted(allowed))}."
            )
