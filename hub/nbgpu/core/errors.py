"""One tree for every error of ours.

    NbgpuError
    ├── SettingsError         nbgpu.toml is wrong: file, key, value, what is allowed
    ├── SetupError            a piece the machine needs is missing: what to install and how
    ├── ImageError            an image can't be built, read or found
    ├── DriverError           NVML can't be asked at all (a single field that fails is None, not an error)
    ├── EngineError           the container engine can't be asked, or failed
    │   ├── EngineUnavailable     no answer: never read as "the container is gone"
    │   ├── NameTaken             a container that is not ours has the name
    │   └── ServerDied            the container ended before it answered
    ├── HubError              the hub's API
    │   ├── HubUnavailable        no answer
    │   └── HubRefused            it answered no
    ├── ServiceError          the nbgpu service's API
    │   ├── ServiceUnavailable    no answer
    │   └── ServiceRefused        it answered no
    ├── StoreError            the database can't be used
    │   └── DatabaseTaken         another hub has it
    ├── AlertError            an alert could not be sent
    └── Refusal               a person asked for what they can't have; says what, why and what to do
        ├── InvalidOptions        400, reason "options"
        ├── NotAllowed            403, reason "not_allowed"
        ├── UnknownUser           404, reason "user"
        ├── UnknownSession        404, reason "session"
        ├── NoCapacity            503, reason "capacity"
        ├── QuotaExceeded         403, reason "quota"
        ├── BudgetExceeded        403, reason "budget"
        ├── ImageMissing          503, reason "image"
        ├── NotExtended           409, reason "extension"
        ├── DeviceRefused         409, reason "device"
        ├── UnderMaintenance      503, reason "maintenance"
        ├── UnknownNotice         404, reason "notice"
        ├── UnknownPolicy         404, reason "policy"
        └── ChangedMeanwhile      409, reason "changed"

Every message is one or two plain sentences: what was asked, what was found, what to do.
"""


class NbgpuError(Exception):
    """Base of all errors raised on purpose; its text may be shown to a person."""

    @property
    def text(self) -> object:
        """What was found wrong: a `Text` that a page can put into the reader's language, or an English sentence."""
        return self.args[0] if self.args else ""


class SettingsError(NbgpuError):
    """The settings file can't be used."""


class SetupError(NbgpuError):
    """A needed piece of the machine can be neither found nor installed."""


class ImageError(NbgpuError):
    """An image can't be built, read or found."""


class DriverError(NbgpuError):
    """The NVIDIA driver can't be asked."""


class EngineError(NbgpuError):
    """The container engine failed."""


class EngineUnavailable(EngineError):
    """The container engine gave no answer: nothing is known about any container."""


class NameTaken(EngineError):
    """A container that this hub did not make has the name we need."""


class ServerDied(EngineError):
    """The container ended before its server answered."""


class HubError(NbgpuError):
    """The hub's API failed."""


class HubUnavailable(HubError):
    """The hub gave no answer: nothing is known of what it runs."""


class HubRefused(HubError):
    """The hub answered no."""


class ServiceError(NbgpuError):
    """The nbgpu service's API failed."""


class ServiceUnavailable(ServiceError):
    """The service gave no answer, or none that can be read: nothing is known of what it did."""


class ServiceRefused(ServiceError):
    """The service answered no; `status` is that of HTTP."""

    def __init__(self, sentence: str, *, status: int) -> None:
        super().__init__(sentence)
        self.status = status


class StoreError(NbgpuError):
    """The database can't be used."""


class DatabaseTaken(StoreError):
    """Another hub uses the database."""


class AlertError(NbgpuError):
    """An alert could not be sent."""


class Refusal(NbgpuError):
    """A person asked for what they can't have. `reason` is the metric label, `status_code` the HTTP status."""

    reason = "refused"
    status_code = 400


class InvalidOptions(Refusal):
    """The options are not in the menu, or not well formed."""

    reason = "options"
    status_code = 400


class NotAllowed(Refusal):
    """The person's groups may not take this."""

    reason = "not_allowed"
    status_code = 403


class UnknownUser(Refusal):
    """Nobody of that name is known."""

    reason = "user"
    status_code = 404


class UnknownSession(Refusal):
    """There is no such session, or it has ended."""

    reason = "session"
    status_code = 404


class NoCapacity(Refusal):
    """All that would fit is taken."""

    reason = "capacity"
    status_code = 503


class QuotaExceeded(Refusal):
    """The person has, or has used, as much as they may."""

    reason = "quota"
    status_code = 403


class BudgetExceeded(Refusal):
    """The money is spent, or held by what runs."""

    reason = "budget"
    status_code = 403


class ImageMissing(Refusal):
    """The image is in the menu but not on this machine."""

    reason = "image"
    status_code = 503


class NotExtended(Refusal):
    """A server can't be kept running for longer."""

    reason = "extension"
    status_code = 409


class DeviceRefused(Refusal):
    """A device can't be taken out of service, or not be put back."""

    reason = "device"
    status_code = 409


class UnderMaintenance(Refusal):
    """No servers are started on this machine now."""

    reason = "maintenance"
    status_code = 503


class UnknownNotice(Refusal):
    """There is no such message, or it is shown no more."""

    reason = "notice"
    status_code = 404


class UnknownPolicy(Refusal):
    """There is no quota or budget of that name, or it is not to be changed here."""

    reason = "policy"
    status_code = 404


class ChangedMeanwhile(Refusal):
    """Somebody else was faster: what was looked at is no more."""

    reason = "changed"
    status_code = 409
