"""What is kept from ledger, model and readers."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_SENDING_TEST = "tests/unit/services/gateway/test_sending.py"
_POLICY = "shared/policy"
_FILTER = "shared/turn/reply_filter.py"
_FILTER_TEST = "tests/unit/shared/turn/test_reply_filter.py"
_SCREENING = "shared/turn/screening.py"
_SCREENING_TEST = "tests/unit/shared/turn/test_screening.py"
_POLICY_TESTS = "tests/unit/shared/policy"

MUTANTS = (
    Mutant(
        "P12",
        "a message goes on as it was typed",
        "services/gateway/sending.py",
        "said, (text, metadata) = text, self._masking.message(text, metadata)",
        "said = text",
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
    Mutant(
        "P12",
        "what may still become a phrase is shown",
        _FILTER,
        "decided = min(decided, self._phrases.held_from - self._dropped)",
        "pass",
        f"{_FILTER_TEST}::test_a_phrase_is_blocked_before_any_of_it_is_shown",
    ),
    Mutant(
        "P12",
        "what was held back is lost at the end",
        "shared/turn/generation.py",
        "                shown.finish()\n",
        "",
        f"{_SCREENING_TEST}::test_what_was_held_back_comes_with_the_end_of_the_answer",
    ),
    Mutant(
        "P12",
        "the shop's own account is masked",
        _FILTER,
        "is_known = account_of(self._plain[start : span.end]) in self._known()",
        "is_known = False",
        f"{_FILTER_TEST}::test_accounts_that_the_prompt_holds_may_be_shown",
    ),
    Mutant(
        "P12",
        "a group of digits is judged before it is complete",
        f"{_POLICY}/card_numbers.py",
        "return longest, not is_open",
        "return longest, True",
        f"{_FILTER_TEST}::test_what_is_shown_does_not_depend_on_how_the_model_cut_it",
    ),
    Mutant(
        "P12",
        "an answer ends before all of it is judged",
        "shared/turn/generation.py",
        "                await screened.settle()\n",
        "",
        f"{_SCREENING_TEST}::test_a_slow_judge_delays_no_text_and_the_end_waits_for_it",
    ),
    Mutant(
        "P12",
        "a verdict does not stop the model",
        _SCREENING,
        "            self._interrupt()\n",
        "            pass\n",
        f"{_SCREENING_TEST}::test_a_reply_that_the_guardrail_blocks_ends_at_once",
    ),
    Mutant(
        "P12",
        "what nobody can judge goes on",
        _SCREENING,
        "            if self._fails_open:\n",
        "            if True:\n",
        f"{_SCREENING_TEST}::test_a_reply_that_nobody_can_judge_is_taken_back",
    ),
    Mutant(
        "P12",
        "an intervention that blocks is taken for masking",
        "shared/adapters/bedrock_guardrail.py",
        "if policies or not masked or",
        "if not masked or",
        "tests/contract/test_guardrail.py::test_only_masking_lets_an_intervention_pass",
    ),
    Mutant(
        "P12",
        "a document's wide bracket stays a bracket",
        "shared/turn/prompt.py",
        ".translate(_DISGUISES)",
        "",
        "tests/unit/shared/turn/test_injection.py"
        "::TestAnInjection::test_in_what_was_found_is_escaped_data",
    ),
)
