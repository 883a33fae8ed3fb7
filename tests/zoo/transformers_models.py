"""Architectures of transformers with small default configurations and random weights."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from zoo_model import Call, Models

ARCHITECTURES = (Path(__file__).parent / "transformers.txt").read_text().split()
SMALL = {  # settings by their value
    32: """
        hidden_size d_model n_embd dim emb_dim embed_dim embedding_size word_embed_proj_dim
        moe_intermediate_size shared_expert_intermediate_size true_hidden_size intra_bottleneck_size
    """,
    2: """
        num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers num_decoder_layers
        num_encoder_layers eos_token_id decoder_start_token_id num_mem_blocks
    """,
    4: """
        num_attention_heads num_heads n_head n_heads encoder_attention_heads decoder_attention_heads
        num_encoder_attention_heads num_decoder_attention_heads num_key_value_heads num_local_experts
        num_experts
    """,
    8: """
        head_dim d_kv state_size rotary_dim
    """,
    64: """
        intermediate_size d_ff d_inner ffn_dim n_inner encoder_ffn_dim decoder_ffn_dim image_size
    """,
    128: """
        vocab_size
    """,
    1: """
        pad_token_id
    """,
    0: """
        bos_token_id
    """,
}
LENGTH = 16


def models() -> Models:
    return {f"transformers/{name}": partial(_build, name) for name in ARCHITECTURES}


def _build(name: str, batch: int) -> Call:
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.for_model(name)
    heads = [getattr(config, key, None) for key in ("num_attention_heads", "num_heads")]
    by_stage = any(isinstance(value, list) for value in heads)  # sizes that differ by stage stay as they are
    for value, keys in SMALL.items():
        for key in keys.split():
            if type(getattr(config, key, None)) is int and not by_stage:
                setattr(config, key, value)
    model = AutoModel.from_config(config)
    ids = torch.randint(3, 100, (batch, LENGTH))
    if model.main_input_name == "pixel_values":
        size = getattr(config, "image_size", None) or 64
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        return model, (), {"pixel_values": torch.randn(batch, getattr(config, "num_channels", 3), height, width)}
    if model.main_input_name == "input_values":
        return model, (), {"input_values": torch.randn(batch, 4000)}
    inputs = {"input_ids": ids}
    if config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.randint(3, 100, (batch, LENGTH // 2))
    return model, (), inputs
