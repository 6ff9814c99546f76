/** The sizes of the roles of a program on NVIDIA GPUs since Hopper. */
import type { RoleShape } from '../../ir/roles.ts'

/**
 * A producer has one warpgroup, because registers are moved between whole warpgroups. It needs only one of its warps, so
 * two are free for a courier. `wgmma` multiplies 64 rows per warpgroup, so 128 rows occupy two warpgroups of consumers.
 */
export const roleShape: RoleShape = {
  producerWarps: 4,
  courierWarps: 2,
  consumers: [
    { fromRows: 0, warps: 4 },
    { fromRows: 128, warps: 8 },
  ],
  mostWarps: 32,
}
