/** The sizes of the roles of a program on NVIDIA GPUs since Hopper. */
import type { RoleShape } from '../../ir/roles.ts'

/**
 * A producer has one warpgroup, because `setmaxnreg` moves registers between whole warpgroups. A producer needs only
 * one of its four warps, so two warps are free for a courier (a role that sends data). `wgmma` multiplies 64 rows per
 * warpgroup, so 128 rows occupy two warpgroups of consumers.
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
