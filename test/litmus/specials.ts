/**
 * Programs that no combination of shape, variant and layout generates: the accesses to a flag, its fences, or
 * successive pairs of agents have different scopes.
 */
import type { LitmusCase } from './cross.ts'
import type { LitmusAgent, Position } from './program.ts'

const near: Position = { rank: 0, program: 0, role: 'w0' }
const beside: Position = { rank: 0, program: 0, role: 'w1' }
const far: Position = { rank: 1, program: 0, role: 'w0' }

function special(name: string, locations: readonly string[], agents: readonly LitmusAgent[]): LitmusCase {
  return {
    program: { name, agents, locations },
    shape: name,
    variant: 'special',
    layout: 'special',
    covering: false,
  }
}

/** Programs in which successive pairs of agents synchronise with different scopes. */
export const specials: readonly LitmusCase[] = [
  // Synchronisation is transitive across scopes: first two agents synchronise at block scope, then two at system scope.
  special(
    'ISA2.block-then-system',
    ['x', 'y', 'z'],
    [
      {
        ...near,
        code: [
          { kind: 'store', loc: 'x', value: 1, order: 'relaxed', scope: 'system' },
          { kind: 'store', loc: 'y', value: 1, order: 'release', scope: 'block' },
        ],
      },
      {
        ...beside,
        code: [
          { kind: 'load', loc: 'y', into: 'r0', order: 'acquire', scope: 'block' },
          { kind: 'store', loc: 'z', value: 1, order: 'release', scope: 'system' },
        ],
      },
      {
        ...far,
        code: [
          { kind: 'load', loc: 'z', into: 'r0', order: 'acquire', scope: 'system' },
          { kind: 'load', loc: 'x', into: 'r1', order: 'relaxed', scope: 'system' },
        ],
      },
    ],
  ),
  // The RMW's narrow scope breaks the release sequence although the scopes of writer and reader include each other's
  // agents.
  ...(['device', 'system'] as const).map((scope) =>
    special(
      `MP-add.${scope}-link`,
      ['x', 'y'],
      [
        {
          ...near,
          code: [
            { kind: 'store', loc: 'x', value: 1, order: 'relaxed', scope: 'system' },
            { kind: 'store', loc: 'y', value: 1, order: 'release', scope: 'system' },
          ],
        },
        {
          ...beside,
          code: [{ kind: 'rmw', op: 'add', loc: 'y', value: 2, into: 'r0', order: 'relaxed', scope }],
        },
        {
          ...far,
          code: [
            { kind: 'load', loc: 'y', into: 'r0', order: 'acquire', scope: 'system' },
            { kind: 'load', loc: 'x', into: 'r1', order: 'relaxed', scope: 'system' },
          ],
        },
      ],
    ),
  ),
  // The accesses of the flag are morally strong, but the scopes of the fences decide whether the agents synchronise.
  ...(['device', 'system'] as const).map((scope) =>
    special(
      `MP.system-flag+${scope}-fences`,
      ['x', 'y'],
      [
        {
          ...near,
          code: [
            { kind: 'store', loc: 'x', value: 1, order: 'relaxed', scope: 'system' },
            { kind: 'fence', order: 'release', scope },
            { kind: 'store', loc: 'y', value: 1, order: 'relaxed', scope: 'system' },
          ],
        },
        {
          ...far,
          code: [
            { kind: 'load', loc: 'y', into: 'r0', order: 'relaxed', scope: 'system' },
            { kind: 'fence', order: 'acquire', scope },
            { kind: 'load', loc: 'x', into: 'r1', order: 'relaxed', scope: 'system' },
          ],
        },
      ],
    ),
  ),
  // The scopes of the fences include each other's agents, but the scopes of the accesses of the flag do not, so no
  // release is observed.
  special(
    'MP.device-flag+system-fences',
    ['x', 'y'],
    [
      {
        ...near,
        code: [
          { kind: 'store', loc: 'x', value: 1, order: 'relaxed', scope: 'system' },
          { kind: 'fence', order: 'release', scope: 'system' },
          { kind: 'store', loc: 'y', value: 1, order: 'relaxed', scope: 'device' },
        ],
      },
      {
        ...far,
        code: [
          { kind: 'load', loc: 'y', into: 'r0', order: 'relaxed', scope: 'device' },
          { kind: 'fence', order: 'acquire', scope: 'system' },
          { kind: 'load', loc: 'x', into: 'r1', order: 'relaxed', scope: 'system' },
        ],
      },
    ],
  ),
  // The middle agent neither acquires nor releases, yet its accesses fix the order of the seqCst fences.
  ...(['acqRel', 'seqCst'] as const).map((order) =>
    special(
      `ISA2.relaxed-relay+${order}-ends`,
      ['x', 'y', 'z'],
      [
        {
          ...near,
          code: [
            { kind: 'store', loc: 'x', value: 1, order: 'relaxed', scope: 'system' },
            { kind: 'fence', order, scope: 'system' },
            { kind: 'store', loc: 'y', value: 1, order: 'relaxed', scope: 'system' },
          ],
        },
        {
          ...beside,
          code: [
            { kind: 'load', loc: 'y', into: 'r0', order: 'relaxed', scope: 'system' },
            { kind: 'store', loc: 'z', value: 1, order: 'relaxed', scope: 'system' },
          ],
        },
        {
          ...far,
          code: [
            { kind: 'load', loc: 'z', into: 'r0', order: 'relaxed', scope: 'system' },
            { kind: 'fence', order, scope: 'system' },
            { kind: 'load', loc: 'x', into: 'r1', order: 'relaxed', scope: 'system' },
          ],
        },
      ],
    ),
  ),
  // Fences with seqCst order the accesses around them regardless of the scopes of those accesses, even if they are weak.
  ...(['device', 'system'] as const).map((scope) =>
    special(
      `SB.weak+${scope}-seqCst`,
      ['x', 'y'],
      [
        {
          ...near,
          code: [
            { kind: 'store', loc: 'x', value: 1, order: 'weak', scope: 'system' },
            { kind: 'fence', order: 'seqCst', scope },
            { kind: 'load', loc: 'y', into: 'r0', order: 'weak', scope: 'system' },
          ],
        },
        {
          ...far,
          code: [
            { kind: 'store', loc: 'y', value: 1, order: 'weak', scope: 'system' },
            { kind: 'fence', order: 'seqCst', scope },
            { kind: 'load', loc: 'x', into: 'r0', order: 'weak', scope: 'system' },
          ],
        },
      ],
    ),
  ),
]
