"""What Locust loads: `make loadtest-ui`, or `locust -f loadtest/locustfile.py --host ws://…/ws`."""

from __future__ import annotations

from typing import Any

from locust import LoadTestShape, events

from loadtest.shape import Burst
from loadtest.user import ChatUser

__all__ = ["ChatUser", "TenfoldBurst"]


class TenfoldBurst(LoadTestShape):
    """From the baseline to ten times that in ten seconds; chosen by default in the web page."""

    use_common_options = False
    burst = Burst()

    def tick(self) -> tuple[int, float] | None:
        """Users now, and how fast new ones come."""
        users = self.burst.users_at(self.get_run_time())
        return None if users is None else (users, max(1.0, users / 2))


def _add_message_option(parser: Any) -> None:
    parser.add_argument(
        "--message",
        default=ChatUser.message,
        help="what each user says; /sim scripts the model server",
    )


def _take_message(environment: Any, **_: object) -> None:
    ChatUser.message = environment.parsed_options.message


events.init_command_line_parser.add_listener(_add_message_option)
events.test_start.add_listener(_take_message)
