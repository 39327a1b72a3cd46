#pragma once

#include <memory>

#include "io/dump/dump_reader.h"
#include "io/zip_reader.h"

namespace mainstem {

/// The archive that torch.save writes since 1.6; `pickle` is its data.pkl.
DumpContent open_torch_archive(const DumpFile& file, std::shared_ptr<const ZipArchive> archive,
                               const ZipMember& pickle);

}  // namespace mainstem
