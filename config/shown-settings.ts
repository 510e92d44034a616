/** The output of `npm run settings`: each value without secrets, and its source. */

import { hideUrlPath, hideUrlSecrets } from './hidden-urls.ts'
import { environment, isKeySetting, PROFILES, settingsList, valueAt } from './settings.ts'
import type { Settings } from './settings-schema.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** Returns one line per setting: `SIBYL_PORT = 9000 # environment`. */
export function settingsLines(settings: Settings, env: Environment = environment): string[] {
  const sources = settingSources(settings, env)
  return Object.entries(shownSettings(settings)).map(
    ([name, value]) => `${name} = ${JSON.stringify(value)}  # ${sources[name]}`,
  )
}

/**
 * Returns the settings by their names in the environment. Secret values are replaced, and keys inside URLs are hidden.
 */
export function shownSettings(settings: Settings): Record<string, unknown> {
  const shown: Record<string, unknown> = {}
  for (const { path, leaf } of settingsList()) {
    const value = valueAt(settings, path)
    const isSet = Array.isArray(value) ? value.length > 0 : value !== ''
    shown[leaf.env] = leaf.secret && isSet ? '(set)' : shownValue(value, path === 'chainRpc')
  }
  return shown
}

/**
 * Returns the source of each setting, by its name in the environment. If a key was read from a file, its source
 * contains the name of the file.
 */
export function settingSources(settings: Settings, env: Environment): Record<string, string> {
  const profile = PROFILES[settings.profile] ?? {}
  const sources: Record<string, string> = {}
  for (const { path, leaf } of settingsList()) {
    const text = env[leaf.env]
    if (text !== undefined) sources[leaf.env] = fromEnvironment(text, isKeySetting(leaf))
    else if (path !== 'profile' && valueAt(profile, path) !== undefined)
      sources[leaf.env] = `profile ${settings.profile}`
    else sources[leaf.env] = 'default'
  }
  return sources
}

function fromEnvironment(text: string, isKey: boolean): string {
  const files = text.split(',').map((part) => part.trim())
  const named = files.filter((part) => part !== '' && !part.startsWith('0x'))
  return isKey && named.length > 0 ? `file ${named.join(', ')}` : 'environment'
}

/** Hides everything after the host in provider URLs, and anything that looks like a key in other texts. */
function shownValue(value: unknown, isProvider: boolean): unknown {
  if (typeof value === 'string') return isProvider ? hideUrlPath(value) : hideUrlSecrets(value)
  if (Array.isArray(value)) return value.map((each) => shownValue(each, isProvider))
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value)
  return Object.fromEntries(
    entries.map(([name, each]) => [name, shownValue(each, isProvider || name === 'rpcUrls')]),
  )
}
