/**
 * Manages the light or dark theme. The page uses the theme of the operating system until the reader chooses the light
 * or the dark theme.
 */
import { byId } from './dom.ts'

const system = matchMedia('(prefers-color-scheme: dark)')

export const isDark = (): boolean => {
  const chosen = document.documentElement.dataset.theme
  return chosen === undefined ? system.matches : chosen === 'dark'
}

/** Calls `changed` whenever the colours change. */
export function watchTheme(changed: () => void): void {
  const button = byId('theme')
  const label = (): void => {
    button.textContent = isDark() ? 'Light theme' : 'Dark theme'
  }
  button.addEventListener('click', () => {
    document.documentElement.dataset.theme = isDark() ? 'light' : 'dark'
    label()
    changed()
  })
  system.addEventListener('change', () => {
    label()
    changed()
  })
  label()
}

/** The colour that a CSS custom property has in the current theme, as `#rrggbb`. */
export function colour(property: string): string {
  const probe = document.createElement('span')
  probe.style.color = `var(${property})`
  document.body.append(probe)
  const channels = getComputedStyle(probe).color.match(/\d+/g) ?? ['0', '0', '0']
  probe.remove()
  return `#${channels
    .slice(0, 3)
    .map((channel) => Number(channel).toString(16).padStart(2, '0'))
    .join('')}`
}
