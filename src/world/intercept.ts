/** A world whose launches are seen first by somebody else. */
import { launchOf, type Launch, type World } from './world.ts'

/** The same world; `onLaunches` is told what is launched, one kernel or several together, and launches it by `go` if it wants to. */
export function intercepted(
  world: World,
  onLaunches: (launches: readonly Launch[], go: () => void) => void,
): World {
  const launch: World['launch'] = (kernel, args, options) =>
    onLaunches([launchOf(kernel, args, options)], () => world.launch(kernel, args, options))
  const launchTogether: World['launchTogether'] = (launches) =>
    onLaunches(launches, () => world.launchTogether(launches))
  return new Proxy(world, {
    get(target, name) {
      if (name === 'launch') return launch
      if (name === 'launchTogether') return launchTogether
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}
