"""What the documents of an owner may and may not do to the index in service."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_REFRESH = "functions/knowledge_refresh/refresh.py"
_REFRESH_TEST = "tests/integration/test_knowledge_refresh.py"
_CORPUS = "shared/policy/corpus.py"
_CORPUS_TEST = "tests/unit/shared/policy/test_corpus.py"
_DOCUMENTS = "shared/policy/documents.py"
_DOCUMENTS_TEST = "tests/unit/shared/policy/test_documents.py"
_LINEAR_TEST = "tests/unit/shared/adapters/test_linear_intent_classifier.py"
_FALLBACK_TEST = "tests/unit/shared/adapters/test_fallback_intent_classifier.py"

MUTANTS = (
    Mutant(
        "index",
        "the ETags that were listed stand for what was read later",
        _REFRESH,
        "after = {name: file.etag for name, file in read.items()}",
        "after = listed",
        f"{_REFRESH_TEST}::test_a_file_that_changes_while_it_is_read_is_seen_by_the_next_refresh",
    ),
    Mutant(
        "index P11",
        "an index of any size is put in use",
        "shared/adapters/s3_index_repository.py",
        "if len(body) > INDEX_LIMIT_BYTES:",
        "if len(body) < 0:",
        f"{_REFRESH_TEST}::test_an_index_too_large_for_its_readers_is_refused_and_the_old_one_stays",
    ),
    Mutant(
        "index P11",
        "an index of any size is read",
        "shared/adapters/s3_artefacts.py",
        'if answer["ContentLength"] > limit_bytes:',
        "if limit_bytes < 0:",
        "tests/integration/test_s3_artefacts.py::test_read_index_refuses_one_without_bounds",
    ),
    Mutant(
        "index",
        "all versions share one index",
        "shared/adapters/index_artefact.py",
        'return f"{INDEX_PREFIX}{embedding}.v{SCHEMA}"',
        'return f"{INDEX_PREFIX}current"',
        f"{_REFRESH_TEST}::test_workers_of_an_older_version_keep_their_index_beside_the_new_one",
    ),
    Mutant(
        "index",
        "the second document of an id replaces the first",
        _CORPUS,
        "if document.id in self._documents:",
        "if not document.id:",
        f"{_CORPUS_TEST}::test_read_corpus_refuses_an_id_that_is_taken",
    ),
    Mutant(
        "index P11",
        "a corpus of any size is embedded",
        _CORPUS,
        "if len(passages) > PASSAGES_LIMIT:",
        "if len(passages) < 0:",
        f"{_CORPUS_TEST}::test_read_corpus_refuses_more_passages_than_an_index_may_hold",
    ),
    Mutant(
        "index",
        "documents are read before the rules of their kinds",
        _CORPUS,
        "key=lambda name: (name != KINDS_NAME, name)",
        "key=lambda name: name",
        f"{_CORPUS_TEST}::test_read_corpus_holds_documents_to_the_rules_of_their_kinds",
    ),
    Mutant(
        "index",
        "a required fact may be missing",
        _DOCUMENTS,
        "    if missing:\n",
        "    if missing and not kind:\n",
        f"{_DOCUMENTS_TEST}::test_parse_document_names_the_document_and_the_line",
    ),
    Mutant(
        "index",
        "the stack starts with documents that cannot be used",
        "infra/local/knowledge.py",
        "        read_corpus(files)\n",
        "        pass\n",
        "tests/unit/infra/local/test_knowledge.py"
        "::test_each_fault_of_a_folder_is_a_sentence_with_its_file_and_line",
    ),
    Mutant(
        "intent",
        "a guess of any confidence is acted on",
        "shared/adapters/linear_intent_classifier.py",
        "return settle_intent(index.intents.guess(rows)[0], index.intents.floor)",
        "return settle_intent(index.intents.guess(rows)[0], 0)",
        f"{_LINEAR_TEST}::test_a_guess_below_the_floor_of_the_index_is_general",
    ),
    Mutant(
        "intent",
        "a failing endpoint is asked for every turn",
        "shared/adapters/fallback_intent_classifier.py",
        "self._rests_until_s = self._clock.monotonic_s() + self._rest_ms / 1000",
        "self._rests_until_s = self._clock.monotonic_s()",
        f"{_FALLBACK_TEST}::test_a_failing_remote_is_left_alone_for_a_while",
    ),
    Mutant(
        "intent",
        "names of documents are words like any other",
        "shared/policy/lexicon.py",
        "phrases[name] = (meaning,)",
        "phrases.setdefault(name, (name,))",
        "tests/unit/shared/policy/test_lexicon.py"
        "::test_lexicon_of_a_corpus_knows_titles_and_traits_but_no_policies",
    ),
)
