/** How text on a terminal is emphasised. A style changes no width that a reader sees, so that tables keep their columns. */
export interface Style {
  readonly heading: (text: string) => string
  /** All is well. */
  readonly good: (text: string) => string
  /** Something was found, or went wrong. */
  readonly bad: (text: string) => string
  readonly warning: (text: string) => string
  /** Details such as source lines and commands. */
  readonly faint: (text: string) => string
}

const same = (text: string): string => text

export const plain: Style = { heading: same, good: same, bad: same, warning: same, faint: same }

/** The lines of a table with its header emphasised. */
export const headed = ([header, ...rows]: readonly string[], { heading }: Style): string[] => [
  heading(header),
  ...rows,
]
