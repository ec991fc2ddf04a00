"""What each invariant tells of views of a few tokens, put by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pytest_longctx.packing.invariants import (
    boundary_labels,
    effective_window,
    index_range,
    labels_preserved,
    offset_range,
    orphan_fragments,
    position_ids,
    supervision_per_row,
    token_order,
)
from pytest_longctx.packing.match import UNKNOWN
from tests.packing.views import IDS, LABELS, POSITIONS, TRUE, changed, told, view_of


class TestTokens:
    def test_of_the_samples(self):
        assert told(token_order(view_of())) == []

    @pytest.mark.parametrize("found", [19, 22])
    def test_another_token_where_a_segment_was_taken_for_a_sample(self, found):
        (other,) = token_order(view_of(changed(IDS, ((0, 4), found))))
        assert told([other]) == [("b", 7, 1, 4, 21, found)]
        assert other.note == "another token"

    def test_one_offence_a_segment(self):
        ids = changed(IDS, ((0, 1), 8), ((0, 2), 9), ((1, 0), 7))
        assert told(token_order(view_of(ids))) == [("a", 7, 0, 1, 11, 8), ("c", 8, 0, 0, 30, 7)]

    def test_a_sample_in_another_order_is_told_where_it_starts(self):
        found = told(token_order(view_of([[10, 11, 12, 21, 20], IDS[1]], shuffled=[1])))
        assert found == [("b", 7, 1, 3, "the sample's order", "its tokens in another order")]


class TestLabels:
    def test_are_the_samples_or_lost_at_a_start(self):
        assert told(labels_preserved(view_of())) == []
        kept = view_of([[31, 32, 33]], [[-100, 32, 33]], [(0, 3, 2, 1)])
        lost = view_of([[32, 33]], [[-100, 33]], [(0, 2, 2, 2)])
        assert told(labels_preserved(kept)) == told(labels_preserved(lost)) == []

    @pytest.mark.parametrize(
        ("place", "found", "witness"),
        [
            ((0, 1), -100, ("a", 7, 0, 1, 11, -100)),
            ((0, 4), -100, ("b", 7, 1, 4, 21, -100)),
            ((0, 3), 20, ("b", 7, 1, 3, -100, 20)),
            ((0, 3), -101, ("b", 7, 1, 3, -100, -101)),
            ((1, 1), 31, ("c", 8, 0, 1, -100, 31)),
            ((1, 3), 32, ("c", 8, 0, 3, 33, 32)),
        ],
    )
    def test_that_are_others(self, place, found, witness):
        assert told(labels_preserved(view_of(labels=changed(LABELS, (place, found))))) == [witness]

    def test_one_offence_a_segment_behind_a_label_lost_at_its_start(self):
        view = view_of([[32, 33, 20, 21]], [[-100, 1, 1, 1]], [(0, 2, 2, 2), (2, 4, 1, 0)])
        assert told(labels_preserved(view)) == [("c", 7, 0, 1, 33, 1), ("b", 7, 1, 2, -100, 1)]


class TestPositions:
    def test_count_each_segments_tokens(self):
        assert told(position_ids(view_of(position_ids=POSITIONS))) == []
        assert told(position_ids(view_of(position_ids=changed(POSITIONS, ((1, 4), 77))))) == []  # padding

    def test_that_are_others(self):
        found = changed(POSITIONS, ((0, 3), 3), ((0, 4), 4), ((1, 2), 1))
        assert told(position_ids(view_of(position_ids=found))) == [("b", 7, 1, 3, 0, 3), ("c", 8, 0, 2, 2, 1)]

    def test_in_each_plane(self):
        planes = [POSITIONS, changed(POSITIONS, ((0, 1), 5)), changed(POSITIONS, ((1, 0), 6))]
        found = told(position_ids(view_of(position_ids=planes)))
        assert found == [("a", 7, 0, 1, 1, 5), ("c", 8, 0, 0, 0, 6)]

    def test_between_two_numbers(self):
        halves = changed(np.array(POSITIONS, float), ((0, 4), 1.5))
        assert told(position_ids(view_of(position_ids=halves))) == [("b", 7, 1, 4, 1, 1.5)]

    def test_of_another_shape_are_told_elsewhere(self):
        assert told(position_ids(view_of(position_ids=np.zeros((2, 4))))) == []

    def test_are_counted_by_the_model_where_there_are_none(self):
        (second,) = position_ids(view_of())  # c starts its row
        assert told([second]) == [("b", 7, 1, 3, 0, 3)]
        assert second.note == "no position_ids in the batch"

    def test_none_behind_one_token_of_padding(self):
        view = view_of([[0, 20, 21], [20, 21, 0]], [[-100, -100, 21]] * 2, [(1, 3, 1, 0), (3, 5, 1, 0)])
        assert told(position_ids(view)) == [("b", 7, 0, 1, 0, 1)]


class TestFirstLabels:
    def test_are_no_targets_behind_another_segment(self):
        assert told(boundary_labels(view_of())) == []
        first = changed(LABELS, ((0, 0), 10), ((1, 0), 30))  # nothing is predicted in the first column
        assert told(boundary_labels(view_of(labels=first))) == []

    @pytest.mark.parametrize("label", [20, 0, -99, -101])
    def test_that_are_targets(self, label):
        found = told(boundary_labels(view_of(labels=changed(LABELS, ((0, 3), label)))))
        assert found == [("b", 7, 1, 3, -100, label)]

    def test_behind_one_token_of_padding(self):
        view = view_of([[0, 20, 21]], [[-100, 20, 21]], [(1, 3, 1, 0)])
        assert told(boundary_labels(view)) == [("b", 7, 0, 1, -100, 20)]


class TestRowsWithoutTargets:
    def test_are_told_with_their_samples_and_tokens(self):
        assert list(supervision_per_row(view_of())) == []
        ((found, tokens),) = supervision_per_row(view_of(labels=[LABELS[0], [-100] * 5]))
        assert (told([found]), tokens) == ([("row 8", 8, None, None, "≥ 1 target", 0)], 4)
        assert found.note == "c"
        ((found, tokens),) = supervision_per_row(view_of(labels=[[-100] * 5, LABELS[1]]))
        assert (found.id, found.note, tokens) == ("row 7", "a, b", 5)

    def test_of_a_batch_row_that_holds_several(self):
        """Packed rows 7, 8 and 9 in one: a label at the start of the first counts for nothing."""
        ids, pieces = [[10, 11, 12, 20, 21, 30, 31, 32, 33]], TRUE
        none = [-100] * 9

        def found(*places):
            labels = changed([none], *(((0, place), 1) for place in places))
            view = view_of(ids, labels, pieces, edges=(0, 3, 5))
            return [(one.row, one.note, tokens) for one, tokens in supervision_per_row(view)]

        assert found() == [(7, "a", 3), (8, "b", 2), (9, "c", 4)]
        assert found(0) == found()
        assert found(1) == found(2) == [(8, "b", 2), (9, "c", 4)]
        assert found(3) == found(4) == [(7, "a", 3), (9, "c", 4)]
        assert found(5) == found(8) == [(7, "a", 3), (8, "b", 2)]
        assert found(2, 3, 8) == []

    @pytest.mark.parametrize("label", [0, -99, -101])
    def test_every_label_but_the_one_that_is_ignored_is_a_target(self, label):
        labels = changed([LABELS[0], [-100] * 5], ((1, 2), label))
        assert list(supervision_per_row(view_of(labels=labels))) == []


class TestFragments:
    @pytest.mark.parametrize(
        ("labels", "trains"),
        [([-100, 32, 33], True), ([-100, -100, -101], True), ([31, -100, -100], True), ([-100] * 3, False)],
    )
    def test_are_orphans_where_they_train(self, labels, trains):
        """a, and c without its first token."""
        view = view_of([[10, 11, 12, 31, 32, 33]], [[-100, 11, 12, *labels]], [(0, 3, 0, 0), (3, 6, 2, 1)])
        found = list(orphan_fragments(view))
        assert told(found) == [("c", 7, 1, 3, "starts at token 0", "starts at token 1")] * trains
        assert [one.note for one in found] == ["the prompt is not in its segment"] * trains

    def test_each_of_them(self):
        """c's last two tokens, its third one without a label, foreign tokens, and b's last."""
        pieces = [(0, 2, 2, 2), (2, 3, 2, 2), (3, 5, UNKNOWN, 0), (5, 6, 1, 1)]
        view = view_of([[32, 33, 32, 8, 9, 21]], [[32, 33, -100, 8, 9, 21]], pieces)
        assert [(one.id, one.position) for one in orphan_fragments(view)] == [("c", 0), ("b", 5)]

    def test_whole_samples_are_none(self):
        assert list(orphan_fragments(view_of())) == []


class TestLimits:
    def test_a_trainers_window(self):
        assert list(effective_window(int("131072"), int("131072"))) == []
        for found, said in ((131_071, 131_071), (131_073, 131_073), (None, "none"), (0, 0)):
            wanted = [("the trainer's limit", None, None, None, 131_072, said)]
            assert told(effective_window(found, 131_072)) == wanted

    def test_ids_lie_in_the_vocabulary(self):
        assert list(index_range(view_of())) == list(index_range(view_of(), 34)) == []
        (found,) = index_range(view_of(), 33)
        assert told([found]) == [("c", 8, 0, 3, "< 33", 33)]
        assert found.note == "an id outside the vocabulary"
        assert told(index_range(view_of(), 11)) == [("c", 8, 0, 3, "< 11", 33)]

    def test_offsets_of_a_batch(self):
        """10 tokens × 214 748 365 = 2³¹ + 2."""
        assert list(index_range(view_of(), row_stride=214_748_364)) == []
        (found,) = index_range(view_of(), 34, 214_748_365)
        assert told([found]) == [("row 7", 7, None, None, 2_147_483_647, 2_147_483_649)]
        assert found.note == "10 tokens × row stride 214,748,365"

    def test_without_a_row_stride_each_token_is_one_element(self):
        ids = np.broadcast_to(np.int32(0), (1, 2**31 + 1))  # takes no memory
        view = SimpleNamespace(batch=SimpleNamespace(ids=ids), first_row=0)
        assert [one.found for one in index_range(view)] == [2**31]

    def test_the_last_offset_that_fits_and_the_first_that_does_not(self):
        assert list(offset_range(2**30, 2, 5)) == []  # element 2³¹ - 1 is the last
        (beyond,) = offset_range(3, 715_827_883, 5)  # 3 × 715 827 883 = 2³¹ + 1
        assert told([beyond]) == [("row 5", 5, None, None, 2_147_483_647, 2_147_483_648)]
