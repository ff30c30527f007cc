"""What is kept from ledger, model and readers."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_SENDING_TEST = "tests/unit/services/gateway/test_sending.py"
_POLICY = "shared/policy"
_POLICY_TESTS = "tests/unit/shared/policy"

MUTANTS = (
    Mutant(
        "P12",
        "a message goes on as it was typed",
        "services/gateway/sending.py",
        "text, metadata = self._masking.message(text, metadata)",
        "pass",
        f"{_SENDING_TEST}::test_a_card_number_is_gone_before_ledger_and_intake",
    ),
    Mutant(
        "P12",
        "metadata are not masked",
        "services/gateway/masking.py",
        "return masked.text, mask_values(metadata)",
        "return masked.text, metadata",
        "tests/unit/services/gateway/test_masking.py"
        "::test_text_and_metadata_are_masked_and_counted_by_kind",
    ),
    Mutant(
        "P12",
        "the check digit of a card does not count",
        f"{_POLICY}/card_numbers.py",
        "    return total % 10 == 0\n",
        "    return total >= 0\n",
        f"{_POLICY_TESTS}/test_card_numbers.py::test_other_numbers_are_none",
    ),
    Mutant(
        "P12",
        "digits of other scripts are not read",
        f"{_POLICY}/likeness.py",
        'if category == "Nd":',
        'if category == "No":',
        f"{_POLICY_TESTS}/test_likeness.py::test_a_text_becomes_what_it_looks_like",
    ),
    Mutant(
        "P12",
        "an order number is taken for a phone number",
        f"{_POLICY}/phone_numbers.py",
        'return "phone" if phone > other else "other"',
        'return "phone" if phone > other else ""',
        f"{_POLICY_TESTS}/test_phone_numbers.py::test_shape_or_announcement_makes_a_phone_number",
    ),
)
