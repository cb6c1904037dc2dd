"""Notices as they are sent: to a real web server, a real mail server and a real program."""

from __future__ import annotations

import email
import email.policy
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gridwright.errors import GridwrightError
from gridwright.watch.damping import Changed, KnownFinding
from gridwright.watch.notifications import (
    MOST_ROWS,
    FindingReason,
    Notification,
    letter,
    notice_of,
    put,
    subject,
)
from gridwright.watch.rounds import FindingKey
from gridwright.watch.send_program import post, secret_bytes, send, signature
from gridwright.watch.sending import (
    SECRET_VARIABLE,
    MailReceiver,
    Notifiers,
    ProgramReceiver,
    SendOutcome,
    WebReceiver,
    receiver_problems,
    send_once,
)
from tests.support.notice_receivers import SECRET, certificate, hook, mail_server


def finding(node: str, name: str = "library-hangs", found: str = "does not answer") -> KnownFinding:
    key = FindingKey(name, (node,), "data")
    return KnownFinding(
        key, "error", "each", found, "an answer", 1000.0, 1060.0, 1060.0, 2, True, 1060.0, is_told=True
    )


def notice(*nodes: str, id_: str = "abcd-1", step: str = "opened") -> Notification:
    changes = [Changed(step, finding(node)) for node in nodes or ("compute1",)]  # type: ignore[arg-type]
    explained = {"library-hangs": FindingReason("Every job that touches it hangs.", "see its servers")}
    made = notice_of(id_, "demo", "head1", changes, [each.finding for each in changes], explained, 1060.0)
    return replace(made, attempts=1)


def never() -> bool:
    return False


@pytest.fixture
def secret(tmp_path: Path) -> str:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o600)
    return str(path)


def test_a_webhook_gets_a_notice_that_it_can_verify(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9/")
    with hook() as taken:
        assert (
            send_once(WebReceiver(taken.url, secret), notice("compute1", "compute2"), never) == SendOutcome()
        )
    ((headers, body),) = taken.requests
    assert headers["webhook-id"] == body["id"] == "abcd-1"
    assert headers["gridwright-attempt"] == "1"
    (row,) = body["changes"]
    assert (row["nodes"], row["count"], row["change"]) == ("compute[1-2]", 2, "opened")
    assert row["remedy"] == "see its servers"
    assert body["open_count"] == 2


@pytest.mark.parametrize(
    ("status", "after", "waits"),
    [(500, "", 0.0), (503, "120", 120.0), (429, "99999", 3600.0), (302, "", 0.0)],
)
def test_a_webhook_that_does_not_take_it_is_tried_again(
    secret: str, status: int, after: str, waits: float
) -> None:
    with hook(status) as taken:
        taken.headers = {"retry-after": after} if after else {"location": taken.url}
        outcome = post(WebReceiver(taken.url, secret), notice(), 1)
    assert len(taken.requests) == 1, "no redirect is followed"
    assert str(status) in outcome.problem
    assert outcome.retry_after_s == waits


def test_a_wrong_secret_is_refused_and_a_short_one_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.touch(0o600)
    path.write_text("quite another secret of some length")
    with hook() as taken:
        assert "401" in post(WebReceiver(taken.url, str(path)), notice(), 1).problem
        path.write_text("short")
        with pytest.raises(GridwrightError, match="16 are the least"):
            post(WebReceiver(taken.url, str(path)), notice(), 1)
        path.write_text(SECRET)
        path.chmod(0o644)
        assert "everybody can read" in send_once(WebReceiver(taken.url, str(path)), notice(), never).problem
    assert len(taken.requests) == 1


def test_signatures_are_those_of_the_standard() -> None:
    """The example of the specification of Standard Webhooks and of its libraries' tests."""
    secret = secret_bytes("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signed = signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_nobody_there_is_told_in_words(secret: str) -> None:
    with hook() as taken:
        url = taken.url
    assert "refused" in post(WebReceiver(url, secret), notice(), 1).problem


def test_mail_is_one_message_with_one_identity(tmp_path: Path) -> None:
    with mail_server(refused=("gone@example.org",)) as box:
        receiver = MailReceiver(
            ["ops@example.org", "gone@example.org"], "grid@example.org", f"127.0.0.1:{box.port}"
        )
        outcomes = [send_once(receiver, notice(), never), send(receiver, replace(notice(), attempts=2))]
        assert outcomes == [SendOutcome(note="refused: gone@example.org")] * 2
        box.refused.add("ops@example.org")
        assert "refused" in send(receiver, notice()).problem
        password = tmp_path / "password"
        password.touch(0o600)
        password.write_text("hidden")
        login = replace(receiver, user="grid", password_file=str(password))
        assert "TLS only" in send(login, notice()).problem
    messages = [
        email.message_from_bytes(content, policy=email.policy.default) for _, _, content in box.messages
    ]
    assert len(messages) == 2
    assert {each["message-id"] for each in messages} == {"<abcd-1@head1>"}
    assert messages[0]["subject"] == "[gridwright demo] 1 opened: library-hangs (1 open)"
    assert box.messages[0][:2] == ("grid@example.org", ["ops@example.org"])
    assert "mend: see its servers" in messages[0].get_content()


def test_nobody_but_a_server_with_a_good_certificate_gets_anything(
    secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = certificate(tmp_path)
    with hook(tls=tls) as taken, mail_server(tls=tls) as box:
        login = {"user": "grid", "password_file": secret}
        receiver = MailReceiver(["ops@example.org"], "grid@example.org", f"127.0.0.1:{box.port}", **login)
        for outcome in (post(WebReceiver(taken.url, secret), notice(), 1), send(receiver, notice())):
            assert "certificate verify failed" in outcome.problem
        assert (taken.requests, box.messages, box.logins) == ([], [], [])
        monkeypatch.setenv("SSL_CERT_FILE", str(tls))
        for outcome in (post(WebReceiver(taken.url, secret), notice(), 1), send(receiver, notice())):
            assert outcome == SendOutcome()
        assert (len(taken.requests), len(box.messages)) == (1, 1)
        assert box.logins == [f"\0grid\0{SECRET}"]


def test_a_mail_server_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, secret: str) -> None:
    monkeypatch.setattr("gridwright.watch.sending.SEND_S", 1.0)
    with hook(held=True) as taken:
        assert "has not answered" in send_once(WebReceiver(taken.url, secret), notice(), never).problem


def test_a_program_gets_json_and_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, SECRET)
    took = tmp_path / "took"
    code = (
        "import json, os, sys; found = json.load(sys.stdin); "
        f"open(sys.argv[1], 'w').write(json.dumps([found['id'], os.environ['GRIDWRIGHT_NOTICE'], "
        f"{SECRET_VARIABLE!r} in os.environ])); sys.exit(int(sys.argv[2]))"
    )
    words = [sys.executable, "-c", code, str(took)]
    assert send_once(ProgramReceiver([*words, "0"]), notice(), never) == SendOutcome()
    assert json.loads(took.read_text()) == ["abcd-1", "abcd-1", False]
    assert "exit status 3" in send_once(ProgramReceiver([*words, "3"]), notice(), never).problem
    assert (
        "cannot be started" in send_once(ProgramReceiver([str(tmp_path / "none")]), notice(), never).problem
    )


def test_a_try_ends_when_the_watch_does() -> None:
    notifiers = Notifiers({"command": ProgramReceiver(["sleep", "60"])})
    notifiers.begin("command", notice())
    assert not notifiers.is_free("command") and notifiers.ended() == []
    notifiers.close()
    ((name, id_, outcome),) = notifiers.ended()
    assert (name, id_, outcome.stopped) == ("command", "abcd-1", True)


def test_who_fails_is_left_alone_for_longer_each_time() -> None:
    now = [0.0]
    notifiers = Notifiers({"webhook": WebReceiver("http://127.0.0.1:1/")}, lambda: now[0])
    waits = []
    for failures in (1, 2, 3, 30):
        notifiers.failed("webhook", failures, SendOutcome("no"))
        waits.append(notifiers.wait_s("webhook"))
        assert not notifiers.is_free("webhook")
    assert waits == [10.0, 20.0, 40.0, 900.0]
    notifiers.failed("webhook", 1, SendOutcome("no", retry_after_s=120.0))
    assert notifiers.wait_s("webhook") == 120.0
    now[0] = 120.0
    assert notifiers.is_free("webhook")
    notifiers.close()


def test_a_flood_is_one_notice_of_bounded_size() -> None:
    nodes = [f"compute{number}" for number in range(1, 1001)]
    one = notice(*nodes)
    assert [(row.nodes, row.count) for row in one.changes] == [("compute[1-1000]", 1000)]
    changes = [Changed("opened", finding("compute1", f"check-{number}")) for number in range(500)]
    many = notice_of("abcd-2", "demo", "head1", changes, [each.finding for each in changes], {}, 0.0)
    assert len(many.changes) == len(many.open) == MOST_ROWS
    assert (many.beyond, many.open_count) == (400, 500)
    assert len(json.dumps(many.document())) < 100_000
    assert "400 more" in subject(many) and "400 more" in letter(many)


def test_what_happens_while_a_receiver_is_away_becomes_one_notice() -> None:
    tried = notice()
    waiting = [tried]
    for number in range(2, 50):
        waiting = put(waiting, replace(notice(f"compute{number}", id_=f"abcd-{number}"), attempts=0))
    assert [each.id for each in waiting] == ["abcd-1", "abcd-2"]
    assert waiting[0] == tried, "who got it in a try before must get the same again"
    assert len(waiting[1].changes) == 48
    for number in range(50, 200):
        waiting = put(waiting, replace(notice(f"compute{number}", id_=f"abcd-{number}"), attempts=0))
    assert len(waiting) == 2
    assert len(waiting[1].changes) + waiting[1].beyond == 198


def test_a_letter_cannot_be_made_to_lie_by_a_name() -> None:
    odd = notice("compute1")
    rows = [replace(each, name="x\r\nBcc: evil@example.org") for each in odd.changes]
    assert "\n" not in subject(replace(odd, changes=rows))


def test_receivers_that_can_never_be_reached_are_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SECRET_VARIABLE, raising=False)
    public = tmp_path / "public"
    public.write_text(SECRET)
    public.chmod(0o644)
    found = receiver_problems(
        {
            "command": ProgramReceiver([str(tmp_path / "none")]),
            "webhook": WebReceiver("https://example.org/"),
            "mail": MailReceiver(["a@example.org"], user="a", password_file=str(public)),
        }
    )
    texts = [each.what for each in found]
    assert len(texts) == 4, texts
    assert all(each.remedy for each in found)
    monkeypatch.setenv(SECRET_VARIABLE, SECRET)
    assert receiver_problems({"webhook": WebReceiver("https://example.org/")}) == []
    with pytest.raises(GridwrightError):
        from gridwright.watch.sending import read_secret

        read_secret(str(tmp_path / "none"))
    assert os.access(public, os.R_OK)
