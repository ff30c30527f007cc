"""Locust users that chat over real WebSockets and check every turn, not only its times."""
