/** Lists the stages of every target with a short explanation, for the help texts of `check` and `emit`. */
import { stageDescription, stagedTargets, type StagedTarget } from '../targets/stages.ts'

/** `namesOf` returns the stages of a target that a command accepts. Targets with the same stages share one list. */
export function stageHelp(namesOf: (target: StagedTarget) => readonly string[]): string {
  const byList = new Map<string, StagedTarget[]>()
  for (const target of stagedTargets) {
    const names = namesOf(target)
    const width = Math.max(...names.map((name) => name.length))
    const list = names.map((name) => `  ${name.padEnd(width)}  ${stageDescription(target, name)}`).join('\n')
    byList.set(list, [...(byList.get(list) ?? []), target])
  }
  return [...byList]
    .map(([list, targets]) => `Stages of ${targets.join(' and ')}, in order:\n${list}`)
    .join('\n\n')
}
