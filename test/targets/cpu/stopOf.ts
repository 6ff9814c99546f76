/** Returns the `WorldStopped` error that a promise rejects with. */
import { expect } from 'vitest'
import { WorldStopped } from '../../../src/world/world.ts'

export async function stopOf(waiting: Promise<unknown>): Promise<WorldStopped> {
  const error: unknown = await waiting.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(WorldStopped)
  return error as WorldStopped
}
