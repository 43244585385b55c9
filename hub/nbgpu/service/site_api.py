"""The API of what the site stands on: images, the doctor's findings, alerts."""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import ClassVar

from nbgpu.core.findings import Examination, Level
from nbgpu.service.books import DoctorBook
from nbgpu.service.handler import ApiHandler, needed
from nbgpu.service.operations import Answer, Instant, May, Operation


class ImageAnswer(Answer):
    """An image of the catalogue: what is built where it is, else what would be."""

    slug: str
    display_name: str
    description: str
    variant: str | None
    python: str | None
    cuda: str | None
    cudnn: str | None
    minimum_driver: str | None
    frameworks: dict[str, str]
    state: str
    id: str | None
    size_bytes: int | None
    built_at: Instant | None


class ImagesAnswer(Answer):
    """The catalogue; null where servers are processes and have no image."""

    images: list[ImageAnswer] | None


class FindingAnswer(Answer):
    """What a check found, and what to do."""

    subject: str
    level: Level
    found: str
    advice: str


class ExaminationAnswer(Answer):
    """The last examination; `at` is null where none is done yet."""

    at: Instant | None
    is_running: bool
    problem: str | None
    findings: list[FindingAnswer]


class AlertAnswer(Answer):
    """A share of a budget that was reached; money as it was then."""

    budget: str
    owner: str
    percent: int
    spent_micro: int
    amount_micro: int
    forecast: Instant | None
    raised_at: Instant
    sent_at: Instant | None


class AlertsAnswer(Answer):
    """The newest alerts, newest first."""

    alerts: list[AlertAnswer]


class ImagesHandler(ApiHandler):
    """The catalogue."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(summary="The images, and whether they are built.", answer=ImagesAnswer, may=May.OPERATE)
    }

    async def get(self) -> None:
        """Answer with a list."""
        book = needed(self.books.images)
        found = await asyncio.to_thread(book.look)
        plain = [ImageAnswer.model_validate(each, from_attributes=True) for each in found or ()]
        self.answer(ImagesAnswer(images=plain if found is not None else None))


class DoctorHandler(ApiHandler):
    """The doctor."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(summary="What the doctor found last.", answer=ExaminationAnswer, may=May.OPERATE),
        "POST": Operation(
            summary="Have the doctor look at everything anew.",
            answer=ExaminationAnswer,
            may=May.OPERATE,
            status=HTTPStatus.ACCEPTED,
        ),
    }

    @property
    def doctor(self) -> DoctorBook:
        """The doctor. 503 while the service begins."""
        return needed(self.books.doctor)

    async def get(self) -> None:
        """Answer with what was found last."""
        self.answer(_plain(self.doctor.latest()))

    async def post(self) -> None:
        """Begin, and answer with what was found before."""
        self.doctor.begin()
        self.answer(_plain(self.doctor.latest()))


class AlertsHandler(ApiHandler):
    """Alerts of budgets."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(summary="The newest alerts of budgets.", answer=AlertsAnswer, may=May.READ_ALL)
    }

    async def get(self) -> None:
        """Answer with a list."""
        found = await asyncio.to_thread(self.books.limits.alerts)
        self.answer(
            AlertsAnswer(
                alerts=[
                    AlertAnswer(
                        budget=each.budget,
                        owner=each.owner,
                        percent=each.percent,
                        spent_micro=each.spent,
                        amount_micro=each.amount,
                        forecast=each.forecast,
                        raised_at=each.raised_at,
                        sent_at=each.sent_at,
                    )
                    for each in found
                ]
            )
        )


def _plain(examination: Examination) -> ExaminationAnswer:
    return ExaminationAnswer(
        at=examination.at,
        is_running=examination.is_running,
        problem=examination.problem,
        findings=[FindingAnswer.model_validate(each, from_attributes=True) for each in examination.findings],
    )


SITE_HANDLERS: dict[str, type[ApiHandler]] = {
    "images": ImagesHandler,
    "doctor": DoctorHandler,
    "alerts": AlertsHandler,
}
