"""What pre-flight reads in a compiled program: how often each part runs, and what it moves."""

from __future__ import annotations

import pytest

from << cookiecutter.package >>.preflight.hlo import parse
from << cookiecutter.package >>.preflight.program import BETWEEN, Collective, measure

PROGRAM = """HloModule step, is_scheduled=true

%gather_in_parts (a.1: bf16[8,16]) -> bf16[32,16] {
  %a.1 = bf16[8,16]{1,0:T(8,128)(2,1)} parameter(0)
  ROOT %all-gather.7 = bf16[32,16]{1,0} all-gather(%a.1), channel_id=3, replica_groups={{0,1,2,3}}
}

%gather_in_parts.clone (a.2: bf16[8,16]) -> bf16[32,16] {
  %a.2 = bf16[8,16]{1,0:T(8,128)(2,1)} parameter(0)
  ROOT %all-gather.8 = bf16[32,16]{1,0} all-gather(%a.2), channel_id=3, replica_groups={{0,1,2,3}}
}

%gather_in_parts.clone.1 (a.3: bf16[8,16]) -> bf16[32,16] {
  %a.3 = bf16[8,16]{1,0:T(8,128)(2,1)} parameter(0)
  ROOT %all-gather.9 = bf16[32,16]{1,0} all-gather(%a.3), channel_id=3, replica_groups={{0,1,2,3}}
}

%product (b.1: bf16[8,16], b.2: bf16[16,32]) -> bf16[8,32] {
  %b.1 = bf16[8,16]{1,0} parameter(0)
  %b.2 = bf16[16,32]{1,0} parameter(1)
  ROOT %convolution.1 = bf16[8,32]{1,0} convolution(%b.1, %b.2), dim_labels=bf_io->bf
}

%body (c: (s32[], f32[8,8])) -> (s32[], f32[8,8]) {
  %c = (s32[], f32[8,8]{1,0}) parameter(0)
  %c.1 = f32[8,8]{1,0} get-tuple-element(%c), index=1
  %dot.1 = f32[8,8]{1,0} dot(%c.1, %c.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %moved = f32[8,8]{1,0} collective-permute(%dot.1), channel_id=9, source_target_pairs={{0,1}}
  %now.1 = s32[] get-tuple-element(%c), index=0
  %two = s32[]{:T(128)} constant(2)
  %next = s32[] add(%now.1, %two)
  %goes_on = bf16[32,16]{1,0} fusion(%dot.1), kind=kLoop, calls=%gather_in_parts.clone.1
  ROOT %tuple.1 = (s32[], f32[8,8]{1,0}) tuple(%next, %moved)
}

%condition (d: (s32[], f32[8,8])) -> pred[] {
  %d = (s32[], f32[8,8]{1,0}) parameter(0)
  %many = s32[]{:T(128)} constant(9)
  %now = s32[] get-tuple-element(%d), index=0
  ROOT %less = pred[] compare(%now, %many), direction=LT
}

ENTRY %main (p.0: bf16[8,16], p.1: bf16[16,32], p.2: (s32[], f32[8,8])) -> bf16[8,32] {
  %p.0 = bf16[8,16]{1,0:T(8,128)(2,1)} parameter(0)
  %p.1 = bf16[16,32]{1,0:T(8,128)(2,1)S(1)} parameter(1)
  %p.2 = (s32[], f32[8,8]{1,0}) parameter(2)
  %begun = bf16[32,16]{1,0} fusion(%p.0), kind=kLoop, calls=%gather_in_parts
  %ended = bf16[32,16]{1,0} fusion(%p.0), kind=kLoop, calls=%gather_in_parts.clone
  %loop = (s32[], f32[8,8]{1,0}) while(%p.2), condition=%condition, body=%body
  ROOT %fusion.1 = bf16[8,32]{1,0} fusion(%p.0, %p.1), kind=kOutput, calls=%product
}
"""


def test_a_loops_body_counts_as_often_as_it_runs() -> None:
    """Nine in steps of two: five times."""
    work = measure(parse(PROGRAM), devices=4)
    assert work.flops == 5 * (2 * 8 * 8 * 8) + 2 * 8 * 32 * 16


def test_a_collective_in_several_operations_and_turns_is_one() -> None:
    work = measure(parse(PROGRAM), devices=4)
    gathered = 8 * 16 * 2 * 3
    assert work.collectives == (
        Collective("all-gather", 1, gathered),
        Collective("collective-permute", 5, 5 * 8 * 8 * 4),
    )


def test_only_what_lies_in_hbm_goes_through_it() -> None:
    # The product's second operand, marked S(1), lies in the chip's own memory.
    gathers = 2 * (8 * 16 * 2 + 32 * 16 * 2)
    product = 8 * 16 * 2 + 8 * 32 * 2
    counter, goes_on = 3 * 4, 8 * 8 * 4 + 32 * 16 * 2
    loop = 5 * ((1 + 1) * 8 * 8 * 4 + (1 + 1) * 8 * 8 * 4 + counter + goes_on)
    assert measure(parse(PROGRAM), devices=4).hbm_bytes == gathers + product + loop


def test_what_is_cut_out_ahead_of_its_use_is_read_once() -> None:
    text = """%ahead (a.0: s8[4096]) -> s8[1024] {
  %a.0 = s8[4096]{0} parameter(0)
  ROOT %cut = s8[1024]{0:T(1024)S(1)} slice(%a.0), slice={[0:1024]}
}

ENTRY %main (p.0: s8[4096]) -> s8[1024] {
  %p.0 = s8[4096]{0} parameter(0)
  %begun = ((s8[4096]{0}), s8[1024]{0:S(1)}, s32[]{:S(2)}) async-start(%p.0), calls=%ahead
  ROOT %ended = s8[1024]{0:T(1024)S(1)} async-done(%begun)
}"""
    assert measure(parse(text), devices=1).hbm_bytes == 1024


@pytest.mark.parametrize(
    ("convolution", "flops"),
    [
        # A window that reaches over padding: each output meets one position of it for each input.
        (
            "%c = bf16[4,128,2,32] convolution(%a, %b), window={size=1x2 pad=0_0x1_1 "
            "rhs_reversal=0x1}, dim_labels=0bf1_1oi0->0b1f",
            2 * 4 * 128 * 2 * 32 * 128,
        ),
        # A product for each of 16 heads, written as one with holes.
        (
            "%c = f32[16,128,128] convolution(%d, %e), window={size=16 stride=15 lhs_dilate=16}, "
            "dim_labels=0bf_0io->0bf",
            2 * 16 * 128 * 128 * 32,
        ),
    ],
)
def test_a_matrix_product_written_as_a_convolution(convolution: str, flops: int) -> None:
    text = f"""ENTRY %main (a: bf16[4]) -> bf16[4] {{
  %a = bf16[4,128,128,1] parameter(0)
  %b = bf16[2,32,128,1] parameter(1)
  %d = f32[16,128,32] parameter(2)
  %e = f32[16,32,128] parameter(3)
  ROOT {convolution}
}}"""
    assert measure(parse(text), devices=1).flops == flops


def test_what_goes_to_other_slices_is_counted_by_itself() -> None:
    text = """ENTRY %main (p.0: f32[4,8]) -> f32[4,8] {
  %p.0 = f32[4,8]{1,0} parameter(0)
  %after = token[] after-all()
  %out = (f32[4,8]{1,0}, u32[]{:S(2)}, token[]) send(%p.0, %after), channel_id=3, \
is_host_transfer=true, frontend_attributes={_xla_megascale_transfer_type="ALL_REDUCE"}
  %gone = token[] send-done(%out), channel_id=3, is_host_transfer=true
  %log = (f32[4,8]{1,0}, u32[]{:S(2)}, token[]) send(%p.0, %gone), channel_id=4
  ROOT %same = f32[4,8]{1,0} copy(%p.0)
}"""
    work = measure(parse(text), devices=4)
    assert work.collectives == (Collective(BETWEEN, 1, 4 * 8 * 4),)


def test_what_is_no_program_is_told() -> None:
    with pytest.raises(ValueError, match="ENTRY"):
        parse("HloModule nothing")


SPARSE = """HloModule step, is_scheduled=true

%inside (a.1: bf16[8,16]) -> bf16[32,16] {
  %a.1 = bf16[8,16]{1,0} parameter(0)
  ROOT %all-gather.1 = bf16[32,16]{1,0} all-gather(%a.1), channel_id=3, replica_groups={{0,1,2,3}}
}, execution_thread="sparsecore"

%apart (a.2: bf16[8,16]) -> bf16[32,16] {
  %a.2 = bf16[8,16]{1,0} parameter(0)
  ROOT %call.1 = bf16[32,16]{1,0} custom-call(%a.2), called_computations={%inside}
}, execution_thread="sparsecore"

ENTRY %main (p.0: bf16[8,16]) -> bf16[32,16] {
  %p.0 = bf16[8,16]{1,0} parameter(0)
  %start = ((bf16[8,16]{1,0}), bf16[32,16]{1,0}) async-start(%p.0), calls=%apart
  ROOT %done = bf16[32,16]{1,0} async-done(%start)
}
"""


def test_a_collective_of_the_sparse_cores_is_counted() -> None:
    found = measure(parse(SPARSE), 4)
    assert found.collectives == (Collective("all-gather", 1, 3 * 2 * 8 * 16),)
    # Read once and written once, whoever does it.
    assert found.hbm_bytes == 2 * 8 * 16 + 2 * 32 * 16
