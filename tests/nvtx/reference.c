/*
 * A program that uses NVIDIA's own NVTX header, so that what tests/nvtx/tool.c understands is what profilers
 * are told.
 */
#include <nvtx3/nvToolsExt.h>

int main(void)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateA("reference");
    nvtxEventAttributes_t event = { .version = NVTX_VERSION,
                                    .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                    .category = 7,
                                    .payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
                                    .payload = { .ullValue = 42 },
                                    .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                    .message = { .ascii = "by the book" } };
    nvtxDomainNameCategoryA(domain, 7, "seven");
    nvtxRangeId_t range = nvtxDomainRangeStartEx(domain, &event);
    nvtxDomainRangeEnd(domain, range);
    nvtxDomainRangePushEx(domain, &event);
    nvtxDomainRangePop(domain);
    return 0;
}
