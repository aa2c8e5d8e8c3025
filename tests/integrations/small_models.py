"""Models of sentence-transformers that are small enough for a test."""

import pytest


def saved(kind, folder):
    """A small model of random weights, written by sentence-transformers, and its library."""
    library = pytest.importorskip(
        "sentence_transformers", "5", reason="needs sentence-transformers 5: make integrations"
    )
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    try:
        from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding

        Transformer = library.base.modules.Transformer
    except ImportError:  # older versions keep the modules elsewhere
        from sentence_transformers.models import Pooling, StaticEmbedding, Transformer

    torch.manual_seed(0)
    vocabulary = {"[UNK]": 0, "[PAD]": 1, "a": 2, "b": 3, "c": 4}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    if kind == "static":
        modules = [StaticEmbedding(words, embedding_dim=5)]
    else:
        shape = {"num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 4}
        inner = folder.with_name("inner")
        BertModel(BertConfig(vocab_size=5, hidden_size=5, **shape)).save_pretrained(inner)
        marks = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
        PreTrainedTokenizerFast(tokenizer_object=words, **marks).save_pretrained(inner)
        modules = [Transformer(str(inner), max_seq_length=8), Pooling(5)]
    library.SentenceTransformer(modules=modules, device="cpu").save(str(folder))
    return library
