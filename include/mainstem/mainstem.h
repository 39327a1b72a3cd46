#pragma once

/// Everything a program needs: load a model, run it, see its steps, check it.

#include "mainstem/block.h"
#include "mainstem/chat.h"
#include "mainstem/check.h"
#include "mainstem/decoder_block.h"
#include "mainstem/draw.h"
#include "mainstem/embed.h"
#include "mainstem/error.h"
#include "mainstem/example.h"
#include "mainstem/gguf.h"
#include "mainstem/model.h"
#include "mainstem/npz.h"
#include "mainstem/presets.h"
#include "mainstem/program.h"
#include "mainstem/rng.h"
#include "mainstem/safetensors.h"
#include "mainstem/sampling.h"
#include "mainstem/score.h"
#include "mainstem/session.h"
#include "mainstem/tokenizer.h"
#include "mainstem/torch_layer.h"
