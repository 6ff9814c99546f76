/** What a tooltip says. Markup carries it as JSON in `data-tip`. */
export interface Description {
  readonly title: string
  readonly lines: readonly (readonly [label: string, value: string])[]
}
