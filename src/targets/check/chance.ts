/** Where a scenario asks for chance or time, which makes every run another one. */
import { Site } from '../../ir/site.ts'

interface Source {
  readonly name: string
  readonly of: Record<string, (...args: never[]) => unknown>
  readonly key: string
}

const sources: readonly Source[] = [
  { name: 'Math.random()', of: Math as never, key: 'random' },
  { name: 'Date.now()', of: Date as never, key: 'now' },
  { name: 'performance.now()', of: performance as never, key: 'now' },
  { name: 'crypto.getRandomValues()', of: crypto as never, key: 'getRandomValues' },
  { name: 'crypto.randomUUID()', of: crypto as never, key: 'randomUUID' },
]

/** The first of these calls that `run` makes, whatever becomes of the run. */
export async function chanceIn(
  run: () => Promise<unknown>,
): Promise<{ readonly name: string; readonly site: Site } | undefined> {
  let found: { readonly name: string; readonly site: Site } | undefined
  const restore = sources.map(({ name, of, key }) => {
    const own = Object.getOwnPropertyDescriptor(of, key)
    const original = of[key]
    Object.defineProperty(of, key, {
      configurable: true,
      writable: true,
      value: (...args: never[]) => {
        found ??= { name, site: Site.here() }
        return original.apply(of, args)
      },
    })
    return () => (own ? Object.defineProperty(of, key, own) : delete of[key])
  })
  try {
    await run()
  } catch {
    // Why the run ends is told elsewhere.
  } finally {
    for (const back of restore) back()
  }
  return found
}
