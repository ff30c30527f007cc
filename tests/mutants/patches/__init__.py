"""All mutants, by the part of the product they damage."""

from __future__ import annotations

from itertools import chain

from tests.mutants.patches import (
    admission,
    budget,
    clients,
    configuration,
    delivery,
    functions,
    gateway,
    guardrails,
    http,
    knowledge,
    ledger,
    model,
    queues,
    storage,
    sweeping,
    turns,
)

ALL = tuple(
    chain(
        ledger.MUTANTS,
        storage.MUTANTS,
        delivery.MUTANTS,
        turns.MUTANTS,
        model.MUTANTS,
        budget.MUTANTS,
        sweeping.MUTANTS,
        gateway.MUTANTS,
        http.MUTANTS,
        guardrails.MUTANTS,
        admission.MUTANTS,
        functions.MUTANTS,
        queues.MUTANTS,
        clients.MUTANTS,
        configuration.MUTANTS,
        knowledge.MUTANTS,
    )
)
