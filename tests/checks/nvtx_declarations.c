/*
 * Our declarations of what NVTX tools and programs agree on, beside NVIDIA's own.
 */
#include "harness.h"
#include "observe/nvtx_abi.h"

#include <nvtx3/nvToolsExt.h>

#define SAME(ours, theirs) _Static_assert((ours) == (theirs), #ours)
#define SAME_PLACE(ours, theirs)                                                                   \
    SAME(offsetof(struct nvtx_event, ours), offsetof(nvtxEventAttributes_t, theirs))

SAME(NVTX_ABI_VERSION, NVTX_VERSION);
SAME(NVTX_ABI_MODULES, NVTX_CB_MODULE_SIZE);
SAME(NVTX_ABI_CORE2, NVTX_CB_MODULE_CORE2);
SAME(NVTX_ABI_RANGE_START, NVTX_CBID_CORE2_DomainRangeStartEx);
SAME(NVTX_ABI_RANGE_END, NVTX_CBID_CORE2_DomainRangeEnd);
SAME(NVTX_ABI_RANGE_PUSH, NVTX_CBID_CORE2_DomainRangePushEx);
SAME(NVTX_ABI_RANGE_POP, NVTX_CBID_CORE2_DomainRangePop);
SAME(NVTX_ABI_NAME_CATEGORY, NVTX_CBID_CORE2_DomainNameCategoryA);
SAME(NVTX_ABI_DOMAIN_CREATE, NVTX_CBID_CORE2_DomainCreateA);
SAME(NVTX_ABI_CALLBACKS, NVTX_ETID_CALLBACKS);
SAME(NVTX_ABI_VERSIONS, NVTX_ETID_VERSIONINFO);
SAME(NVTX_ABI_ARGB, NVTX_COLOR_ARGB);
SAME(NVTX_ABI_UNSIGNED_64, NVTX_PAYLOAD_TYPE_UNSIGNED_INT64);
SAME(NVTX_ABI_ASCII, NVTX_MESSAGE_TYPE_ASCII);
SAME(sizeof(struct nvtx_event), sizeof(nvtxEventAttributes_t));
SAME_PLACE(category, category);
SAME_PLACE(colour, color);
SAME_PLACE(payload_type, payloadType);
SAME_PLACE(payload, payload);
SAME_PLACE(message_type, messageType);
SAME_PLACE(message, message);
SAME(sizeof(struct nvtx_callbacks), sizeof(NvtxExportTableCallbacks));
SAME(sizeof(struct nvtx_version), sizeof(NvtxExportTableVersionInfo));
SAME(offsetof(struct nvtx_version, set_tool_version),
     offsetof(NvtxExportTableVersionInfo, SetInjectionNvtxVersion));

static void the_tables_have_their_sizes(void)
{
    static const unsigned ours[] = NVTX_ABI_SIZES;
    static const unsigned theirs[] = { 0,
                                       NVTX_CBID_CORE_SIZE,
                                       NVTX_CBID_CUDA_SIZE,
                                       NVTX_CBID_OPENCL_SIZE,
                                       NVTX_CBID_CUDART_SIZE,
                                       NVTX_CBID_CORE2_SIZE,
                                       NVTX_CBID_SYNC_SIZE };
    for (unsigned i = 0; i < NVTX_ABI_MODULES; i++) {
        CHECK_EQUAL(theirs[i], ours[i]);
        CHECK(ours[i] <= NVTX_ABI_FUNCTIONS_MAX);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(the_tables_have_their_sizes) };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
