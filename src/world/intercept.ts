/** Wraps a world so that a callback sees every launch before it happens. */
import { launchOf, type Launch, type World } from './world.ts'

/**
 * Returns the same world, except that a callback sees its launches. `onLaunches` receives one launch, or several
 * launches of a co-launch set, and calls `go` to execute them.
 */
export function intercepted(
  world: World,
  onLaunches: (launches: readonly Launch[], go: () => void) => void,
): World {
  const launch: World['launch'] = (kernel, args, options) =>
    onLaunches([launchOf(kernel, args, options)], () => world.launch(kernel, args, options))
  // For a launch on a group, the callback finds the group among the options of the launch.
  const group: World['group'] = (members) => {
    const inner = world.group(members)
    return intercepted(inner, (launches, go) => {
      const named = launches.map((one) => ({ ...one, options: { group: inner, ...one.options } }))
      onLaunches(named, go)
    })
  }
  const launchTogether: World['launchTogether'] = (launches) =>
    onLaunches(launches, () => world.launchTogether(launches))
  return new Proxy(world, {
    get(target, name) {
      if (name === 'launch') return launch
      if (name === 'launchTogether') return launchTogether
      if (name === 'group') return group
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}
