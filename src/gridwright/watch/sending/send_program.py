"""Sends one notice to a URL or by mail: `python -m gridwright.watch.sending.send_program` reads a SendOrder.

A process of its own, since names that are not resolved and servers that drip hold it up without end, and
nothing else can be killed.
"""

from __future__ import annotations

import sys

from gridwright.errors import GridwrightError
from gridwright.messages import MessageError, decode, encode
from gridwright.watch.sending.receivers import RECEIVERS, MailReceiver, SendOrder, SendOutcome, WebReceiver


def main() -> None:
    """Carry out one order, and tell the outcome."""
    try:
        order = decode(sys.stdin.read(), SendOrder)
        receiver = RECEIVERS.typed(order.receiver)
    except MessageError as error:
        sys.exit(f"the order is not as agreed: {error}")
    try:
        outcome = _sent(receiver, order)
    except GridwrightError as error:
        outcome = SendOutcome(str(error.problems[0]).partition("\n")[0])
    print(encode(outcome).decode())  # noqa: T201 - the answer


def _sent(receiver: object, order: SendOrder) -> SendOutcome:
    if isinstance(receiver, WebReceiver):
        from gridwright.watch.sending.webhook import post

        return post(receiver, order.notice, order.attempt)
    if isinstance(receiver, MailReceiver):
        from gridwright.watch.sending.mail import send

        return send(receiver, order.notice)
    return SendOutcome("nothing here sends to it")


if __name__ == "__main__":
    main()
