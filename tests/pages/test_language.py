"""Which language a reader gets, and that texts stay escaped in all of them."""

from datetime import UTC, datetime, timedelta

import pytest
from markupsafe import Markup

from nbgpu.core.texts import Text, enumerate_texts
from nbgpu.spawner.i18n import choose_language, get_translator

EN, ZH = get_translator("en"), get_translator("zh-CN")


@pytest.mark.parametrize(
    ("cookie", "accepted", "language"),
    [
        (None, None, "en"),
        (None, "", "en"),
        (None, "zh-CN,zh;q=0.9,en;q=0.8", "zh-CN"),
        (None, "zh-TW", "zh-CN"),
        (None, "en-GB,zh;q=0.5", "en"),
        (None, "en;q=0.3, zh-Hans-CN;q=0.9", "zh-CN"),
        (None, "de, fr;q=0.9, zh;q=0.1", "zh-CN"),
        (None, "zh;q=0, de", "en"),
        (None, "zh;q=much,*;q=0.5", "en"),
        (None, ";;;,,=", "en"),
        ("zh-CN", "en", "zh-CN"),
        ("en", "zh-CN", "en"),
        ("../../etc", "zh-CN", "zh-CN"),
        ("xx", None, "en"),
    ],
)
def test_the_switch_comes_before_the_browser_and_english_last(cookie, accepted, language):
    assert choose_language(cookie, accepted) == language


def test_texts_are_filled_in_the_readers_language():
    refusal = Text(
        "No “%(flavor)s” can start now: %(problem)s Free instead: %(offers)s. Or try again later.",
        flavor="One A100",
        problem=Text("All are in use."),
        offers=enumerate_texts([Text("“%(flavor)s” (%(count)s)", flavor="Shared T4", count=2), "cpu"]),
    )
    assert str(refusal) == (
        "No “One A100” can start now: All are in use. Free instead: “Shared T4” (2), cpu. Or try again later."
    )
    assert ZH.say(refusal) == "现在无法启动“One A100”：已全部占用。 目前空闲：“Shared T4”（2）、cpu。也可稍后再试。"


@pytest.mark.parametrize("translator", [EN, ZH])
def test_markup_escapes_all_but_markup(translator):
    evil = Text("Leasing “%(flavor)s”", flavor="<script>&")
    assert "&lt;script&gt;&amp;" in translator.markup(evil)
    time = translator.time(datetime(2026, 11, 30, 8, tzinfo=UTC))
    found = translator.markup("One is expected to be free at %(time)s, when a time limit ends.", time=time)
    assert '<time datetime="2026-11-30T08:00:00+00:00">2026-11-30 08:00 UTC</time>' in found
    assert isinstance(found, Markup)


def test_what_is_in_no_catalogue_stays_as_it_is():
    assert ZH.say("100% unknown") == "100% unknown"
    assert ZH.say("") == ""
    assert ZH.say(Text("This GPU is 50% lost.")) == "This GPU is 50% lost."


def test_spans_have_the_units_of_the_language():
    span = timedelta(hours=49, minutes=30)
    assert (EN.span(span), ZH.span(span)) == ("2 d 1 h 30 min", "2 天 1 小时 30 分钟")
