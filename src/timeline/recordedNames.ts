/** The names of the events that Arke's own runs record, on every target. */

const at = (line: string): string => (line === '' ? '' : ` at ${line}`)

export const recordedNames = {
  launch: (kernel: string): string => `launch ${kernel}`,
  program: (kernel: string, program: number): string => `${kernel} ${program}`,
  wait: (flags: string, owner: number, line: string): string =>
    `wait for ${flags} of rank ${owner}${at(line)}`,
  copy: (owner: number, line: string): string => `copy with rank ${owner}${at(line)}`,
} as const
