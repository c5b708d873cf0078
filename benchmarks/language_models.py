"""Small models of Hugging Face transformers, for training: the architectures, not the sizes.

In: nothing. Out: `MODELS`: name → what makes (module, arguments). A module's result is a loss. Configurations are
random; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Made = tuple[nn.Module, tuple[Tensor, ...]]

WIDTH, HEADS, LAYERS, WORDS = 256, 4, 4, 2000


class Loss(nn.Module):
    """The model's own loss for inputs that are their own labels; for a vision model, for the labels given."""

    def __init__(self, model: nn.Module, argument: str = "input_ids") -> None:
        super().__init__()
        self.model, self.argument = model, argument

    def forward(self, inputs: Tensor, labels: Tensor) -> Tensor:
        return self.model(**{self.argument: inputs}, labels=labels).loss


def _words(model: Any) -> Made:
    ids = torch.randint(3, WORDS, (4, 64))
    return Loss(model), (ids, ids.clone())


def bert(layers: int = LAYERS, width: int = WIDTH) -> Made:
    import transformers as t

    config = t.BertConfig(vocab_size=WORDS, hidden_size=width, num_hidden_layers=layers, num_attention_heads=HEADS,
                          intermediate_size=4 * width, hidden_dropout_prob=0.0,
                          attention_probs_dropout_prob=0.0)  # fmt: skip
    return _words(t.BertForMaskedLM(config))


def gpt2(layers: int = LAYERS, width: int = WIDTH) -> Made:
    import transformers as t

    config = t.GPT2Config(vocab_size=WORDS, n_embd=width, n_layer=layers, n_head=HEADS, use_cache=False,
                          loss_type="ForCausalLM", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)  # fmt: skip
    return _words(t.GPT2LMHeadModel(config))


def llama(layers: int = LAYERS, width: int = WIDTH) -> Made:
    import transformers as t

    config = t.LlamaConfig(vocab_size=WORDS, hidden_size=width, num_hidden_layers=layers, num_attention_heads=HEADS,
                           intermediate_size=2 * width, use_cache=False)  # fmt: skip
    return _words(t.LlamaForCausalLM(config))


def t5(layers: int = LAYERS, width: int = WIDTH) -> Made:
    import transformers as t

    config = t.T5Config(vocab_size=WORDS, d_model=width, d_kv=width // HEADS, num_layers=layers // 2,
                        num_heads=HEADS, d_ff=2 * width, use_cache=False, dropout_rate=0.0,
                        decoder_start_token_id=0)  # fmt: skip
    return _words(t.T5ForConditionalGeneration(config))


def vit(layers: int = LAYERS, width: int = WIDTH) -> Made:
    import transformers as t

    config = t.ViTConfig(hidden_size=width, num_hidden_layers=layers, num_attention_heads=HEADS, num_labels=10,
                         intermediate_size=4 * width, image_size=64, patch_size=8, hidden_dropout_prob=0.0,
                         attention_probs_dropout_prob=0.0)  # fmt: skip
    return Loss(t.ViTForImageClassification(config), "pixel_values"), (
        torch.randn(4, 3, 64, 64),
        torch.randint(10, (4,)),
    )


MODELS: dict[str, Callable[..., Made]] = {"BERT": bert, "GPT-2": gpt2, "Llama": llama, "T5": t5, "ViT": vit}
