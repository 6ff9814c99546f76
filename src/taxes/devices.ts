/**
 * The memory of known devices: bandwidth and size of the last-level cache, keyed by the device name that traces use.
 * The bandwidths and sizes are from the vendors' public datasheets. No program reaches the datasheet bandwidth, so
 * bytes divided by this bandwidth give a lower bound on the time to move them. The user can give the bandwidth of an
 * unlisted device as an option.
 */

export interface DeviceMemory {
  /** The memory bandwidth in bytes per second. */
  readonly bandwidth: number
  /** The size of the last-level cache in bytes, or 0 if it is unknown. */
  readonly cache: number
}

const GB = 1e9
const MiB = 2 ** 20

/**
 * The first pattern that matches a device name is used, so patterns for variants of a device come before the plain
 * name. Bandwidth is in GB/s, cache size in MiB.
 */
const devices: readonly (readonly [name: RegExp, bandwidth: number, cache: number])[] = [
  [/\bG?B(100|200|300)\b/, 8000, 126],
  [/\bGH200\b.*144/, 4900, 50],
  [/\bGH200\b/, 4000, 50],
  [/\bH200\b/, 4800, 50],
  [/\bH20\b/, 4000, 60],
  [/\bH[18]00\b.*NVL/, 3900, 50],
  [/\bH[18]00\b.*PCIe/i, 2000, 50],
  [/\bH[18]00\b/, 3350, 50],
  [/\bA[18]00\b.*80GB.*PCIe|\bA[18]00\b.*PCIe.*80GB/i, 1935, 40],
  [/\bA[18]00\b.*80GB/, 2039, 40],
  [/\bA[18]00\b/, 1555, 40],
  [/\bV100S\b/, 1134, 6],
  [/\bV100\b/, 900, 6],
  [/\bP100\b/, 732, 4],
  [/\bT4\b/, 320, 4],
  [/\bL40S?\b/, 864, 96],
  [/\bL4\b/, 300, 48],
  [/\bA40\b/, 696, 6],
  [/\bA30\b/, 933, 24],
  [/\bA10G?\b/, 600, 6],
  [/\bRTX A6000\b/, 768, 6],
  [/\bRTX 6000 Ada\b/, 960, 96],
  [/\bRTX 5090\b(?!.*Laptop)/, 1792, 96],
  [/\bRTX 4090\b(?!.*Laptop)/, 1008, 72],
  [/\bRTX 3090 Ti\b/, 1008, 6],
  [/\bRTX 3090\b/, 936, 6],
  [/\bMI35[05]X?\b/, 8000, 256],
  [/\bMI325X?\b/, 6000, 256],
  [/\bMI300[XA]?\b/, 5300, 256],
  // In a trace, each of the two dies of an MI250 is a separate device.
  [/\bMI2[15]0X?\b/, 1638, 8],
  [/\bMI100\b/, 1229, 8],
]

export function deviceMemory(name: string): DeviceMemory | null {
  for (const [pattern, bandwidth, cache] of devices)
    if (pattern.test(name)) return { bandwidth: bandwidth * GB, cache: cache * MiB }
  return null
}

/**
 * The bandwidth of all links between devices of one machine, in GB/s and in one direction, from the vendors' public
 * datasheets: NVLink for the SXM and NVL forms, Infinity Fabric for MI300. The bus bandwidth of a collective cannot
 * exceed the link bandwidth. A device that also exists without NVLink is listed only if its name states the form
 * factor, such as SXM.
 */
const links: readonly (readonly [name: RegExp, bandwidth: number])[] = [
  [/PCIe/i, 0],
  [/\bG?B(100|200|300)\b/, 900],
  [/\bGH200\b|\bH20\b/, 450],
  [/\bH[12]00\b.*NVL/, 300],
  [/\bH[12]00\b/, 450],
  [/\bH800\b|\bA800\b/, 200],
  [/\bA100\b.*SXM/, 300],
  [/\bV100\b.*SXM2/, 150],
  [/\bMI3[25][05]X?\b/, 537],
  [/\bMI300X\b/, 448],
]

/** The bandwidth of a device's links in bytes per second and in one direction, or null if it is unknown. */
export function linkBandwidth(name: string): number | null {
  for (const [pattern, bandwidth] of links)
    if (pattern.test(name)) return bandwidth > 0 ? bandwidth * GB : null
  return null
}
