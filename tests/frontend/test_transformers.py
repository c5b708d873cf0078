"""Models of Hugging Face transformers, small and with random weights: one graph each, and eager's outputs.

`torch.compile` takes one graph for each of them as well (seen with torch 2.13 and transformers 5.17).
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import minicompile
from tests.support import assert_same

from .conftest import Counting

transformers = pytest.importorskip("transformers", reason="transformers, of the test extra, is not installed")
V, H, S = 64, 32, 12
LM = {"vocab_size": V, "hidden_size": H, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
      "max_position_embeddings": 32}  # fmt: skip
KV = {**LM, "num_key_value_heads": 2}
VISION = {"hidden_size": H, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "image_size": 16,
          "patch_size": 8}  # fmt: skip
WHISPER = {"vocab_size": V, "d_model": H, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
           "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "num_mel_bins": 8,
           "max_source_positions": 20, "max_target_positions": 32, "pad_token_id": 0, "bos_token_id": 1,
           "eos_token_id": 2, "decoder_start_token_id": 1}  # fmt: skip
CLIP = {"text_config": {**LM, "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0}, "vision_config": VISION,
        "projection_dim": 16}  # fmt: skip
T5 = {"vocab_size": V, "d_model": H, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4,
      "decoder_start_token_id": 0}  # fmt: skip
GPT2 = {"vocab_size": V, "n_embd": H, "n_layer": 2, "n_head": 4, "n_positions": 32}
DISTILBERT = {"vocab_size": V, "dim": H, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 32}

MODELS: dict[str, tuple[str, dict[str, Any], str, int]] = {
    "bert": ("BertConfig", LM, "BertForMaskedLM", 1),
    "distilbert": ("DistilBertConfig", DISTILBERT, "DistilBertModel", 1),
    "gpt2": ("GPT2Config", GPT2, "GPT2LMHeadModel", 1),
    "llama": ("LlamaConfig", KV, "LlamaForCausalLM", 1),
    "mistral": ("MistralConfig", {**KV, "sliding_window": 8}, "MistralForCausalLM", 1),
    "qwen2": ("Qwen2Config", KV, "Qwen2ForCausalLM", 1),
    "t5": ("T5Config", T5, "T5ForConditionalGeneration", 1),
    "vit": ("ViTConfig", VISION, "ViTModel", 1),
    "clip": ("CLIPConfig", CLIP, "CLIPModel", 1),
    "whisper": ("WhisperConfig", WHISPER, "WhisperForConditionalGeneration", 1),
}
"""Name → config class, its arguments, model class, graphs."""


def inputs_of(name: str) -> dict[str, torch.Tensor]:
    """What the model is called with; the first text is shorter than the second."""
    ids, mask = torch.randint(3, V, (2, S)), torch.ones(2, S, dtype=torch.long)
    mask[0, S - 3 :] = 0
    text, image = {"input_ids": ids, "attention_mask": mask}, {"pixel_values": torch.randn(2, 3, 16, 16)}
    answer = {"decoder_input_ids": torch.randint(3, V, (2, 5))}
    others: dict[str, dict[str, torch.Tensor]] = {
        "vit": image,
        "clip": {**text, **image},
        "t5": {**text, **answer},
        "whisper": {"input_features": torch.randn(2, 8, 40), **answer},
    }
    return others.get(name, text)


def model_of(name: str) -> torch.nn.Module:
    torch.manual_seed(0)
    config_class, arguments, model_class, _ = MODELS[name]
    return getattr(transformers, model_class)(getattr(transformers, config_class)(**copy.deepcopy(arguments))).eval()


CALLS: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in MODELS] + [
    ("llama", {"use_cache": False, "return_dict": False}),
    ("bert", {"output_hidden_states": True}),
]


@pytest.mark.parametrize(("name", "options"), CALLS, ids=str)
def test_no_more_graphs_than_torch_compile(name: str, options: dict[str, Any]) -> None:
    model, backend, inputs = model_of(name), Counting(), inputs_of(name)
    compiled = minicompile.compile(model, backend=backend)
    expected = model(**inputs, **options)
    for _ in range(2):
        actual = compiled(**inputs, **options)
        assert type(actual) is type(expected)
        assert_same(plain(actual), plain(expected))
    assert len(backend.graphs) == MODELS[name][3], [str(record) for record in compiled.breaks]


def plain(output: Any) -> Any:
    """An output with the keys and values of caches in the place of the caches."""
    if isinstance(output, dict):
        return {key: plain(value) for key, value in output.items()}
    if isinstance(output, transformers.EncoderDecoderCache):
        return [plain(output.self_attention_cache), plain(output.cross_attention_cache), dict(output.is_updated)]
    if isinstance(output, transformers.Cache):
        return [(type(output), layer.keys, layer.values) for layer in output.layers]
    return [plain(item) for item in output] if isinstance(output, (tuple, list)) else output


@pytest.mark.parametrize(
    ("name", "options", "entries"),
    [
        ("gpt2", {"do_sample": False}, 3),
        ("gpt2", {"do_sample": True, "top_k": 20}, 3),
        ("llama", {"do_sample": False}, 3),
        ("llama", {"do_sample": False, "cache_implementation": "static"}, 2),
        ("mistral", {"do_sample": False}, 3),
        ("qwen2", {"num_beams": 2}, 3),
        ("t5", {"do_sample": False}, 3),
    ],
    ids=str,
)
def test_generate(name: str, options: dict[str, Any], entries: int) -> None:
    """A graph for the prompt, one for a token, and where the cache grows one for any length, as torch.compile makes
    for GPT-2 and Llama."""
    model, given, backend = model_of(name), inputs_of(name), Counting()
    ids = {key: given[key] for key in ("input_ids", "attention_mask")}

    def generate() -> torch.Tensor:
        torch.manual_seed(3)
        with torch.no_grad():
            return model.generate(**ids, max_new_tokens=10, min_new_tokens=10, pad_token_id=0, **options)

    expected = generate()
    model.forward = compiled = minicompile.compile(model.forward, fullgraph=True, backend=backend)
    for _ in range(2):
        assert torch.equal(generate(), expected)
    assert len(backend.graphs) == entries, [str(record) for record in compiled.recompiles]
