/** A signal or an exit while a kernel of a CUDA world waits, in a separate process on the fake driver. */
import { describe, expect, it } from 'vitest'
import { signalled, type Outcome } from '../targets/cpu/interruptedProcess.ts'
import { itForSome } from '../long.ts'

const run = (mode: string, signal: NodeJS.Signals = 'SIGINT'): Promise<Outcome> =>
  signalled(signal, '../../cuda/interruptedWorld.ts', mode)

describe('a process whose kernel waits on a GPU', () => {
  itForSome(['SIGINT', 'SIGTERM'] as const, (signal) => signal === 'SIGINT')(
    'aborts its kernels on %s and ends as it would without a world',
    async (signal) => {
      const outcome = await run('alone', signal)
      expect(outcome).toEqual({ code: null, signal, output: 'launched\naborted\naborted\n' })
    },
  )

  itForSome(['listening', 'graph'], (mode) => mode === 'listening')(
    'and that is %s reports its ranks and keeps its results',
    async (mode) => {
      const { code, output } = await run(mode, 'SIGTERM')
      expect(output).toMatch(/the world has stopped: interrupted\n/)
      for (const rank of [0, 1])
        expect(output).toMatch(
          new RegExp(`rank ${rank}, program 0 of stuck waits for ready on rank 0: it is 0, 1 is wanted`),
        )
      expect(output).toMatch(/\nkept 5\n$/)
      expect(code).toBe(3)
    },
  )

  it('aborts its kernels when it exits', async () => {
    expect(await run('exiting')).toEqual({ code: 5, signal: null, output: 'aborted\naborted\n' })
  })

  it('leaves signals alone once its world is closed', async () => {
    expect(await run('closed')).toEqual({ code: null, signal: 'SIGINT', output: 'launched\n' })
  })
})
