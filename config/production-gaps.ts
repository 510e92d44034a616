/**
 * Finds gaps of the production profile: missing values that only the operator knows, values copied from an example, and
 * keys that two settings share. Without this check, an exchange could trade without settling, or reject requests from
 * the operator's own page.
 */

import { PRICE_SOURCES } from '#domain/price-providers.ts'
import { devnet } from './devnet.ts'
import { apiKeySetting } from './schema/prices.ts'
import { SettingsError } from './settings.ts'
import type { Settings } from './settings-schema.ts'

type Gap = { readonly setting: string; readonly problem: string }

/** Refuses to start a production exchange with gaps; the message lists every gap. */
export function requireComplete(settings: Settings): void {
  const gaps = productionGaps(settings)
  if (gaps.length === 0) return
  throw new SettingsError(
    [
      'in the production profile, the exchange starts only with these settings:',
      ...gaps.map(({ setting, problem }) => `  ${setting}: ${problem}`),
      '  To start without a chain, a key or an API key on purpose, list its setting in SIBYL_ALLOW_MISSING, separated by commas.',
    ].join('\n'),
  )
}

/** Returns every missing or placeholder value, in the order of the settings; an empty list outside production. */
export function productionGaps(settings: Settings): Gap[] {
  if (settings.profile !== 'production') return []
  const { roles } = settings.cluster
  const hasRole = (role: (typeof roles)[number]): boolean =>
    roles.includes('all') || roles.includes(role)
  const allowed = new Set<string>(settings.allowMissing)
  const missing = [
    ...missingChain(settings),
    ...(hasRole('chain') || hasRole('prices') ? missingKeys(settings, hasRole) : []),
    ...(hasRole('prices') ? missingPriceKeys(settings) : []),
  ].filter(({ setting }) => !allowed.has(setting))
  return [
    ...(hasRole('front') ? corsPlaceholders(settings) : []),
    ...missingDatabase(settings),
    ...missing,
    ...chainPlaceholders(settings),
    ...sharedKeys(settings),
  ]
}

function corsPlaceholders({ front }: Settings): Gap[] {
  return front.corsOrigins.filter(isExample).map((origin) => ({
    setting: 'SIBYL_CORS_ORIGINS',
    problem: `${origin} is a placeholder; name the origins of your pages, or set it empty if only the exchange's own page is used`,
  }))
}

function missingDatabase({ database, data }: Settings): Gap[] {
  if (database.url !== '') return []
  const problem =
    'is not set; name a server as mysql://user:password@host:3306/name, or choose a file with ' +
    `sqlite:${data.dir}/sibyl.db`
  return [{ setting: 'SIBYL_DATABASE_URL', problem }]
}

function hasChain({ chains, chainRpc }: Settings): boolean {
  return (
    chains.length > 0 && (chainRpc.length > 0 || chains.every((each) => each.rpcUrls.length > 0))
  )
}

function missingChain(settings: Settings): Gap[] {
  if (hasChain(settings)) return []
  const without = settings.chains.filter(({ rpcUrls }) => rpcUrls.length === 0)
  const problem =
    without.length === 0
      ? 'is not set; without a chain, orders match, but no trade settles'
      : `chain ${without.map(({ chainId }) => chainId).join(', ')} has no rpcUrls; nothing settles there`
  return [{ setting: 'SIBYL_CHAINS', problem }]
}

function missingKeys(settings: Settings, hasRole: (role: 'chain' | 'prices') => boolean): Gap[] {
  const { keys, settlement, resolution, quick, feeds, allowMissing } = settings
  // If the operator allows a start without a chain, no transactions are sent, so no key is missing.
  if (!hasChain(settings) && allowMissing.includes('SIBYL_CHAINS')) return []
  const gap = (setting: string, work: string): Gap => ({
    setting,
    problem: `is not set; ${work}. Give a key (0x…) or the path of its file`,
  })
  return [
    ...(hasRole('chain') && settlement.enabled && keys.settlement === ''
      ? [gap('SIBYL_SETTLEMENT_KEY', 'no trade settles without it (SIBYL_SETTLEMENT is true)')]
      : []),
    ...(hasRole('chain') && keys.relayer.length === 0
      ? [gap('SIBYL_RELAYER_KEYS', 'approvals, permits and redemptions are not relayed without it')]
      : []),
    ...(hasRole('prices') && quick.enabled && feeds.live && keys.operator === ''
      ? [
          gap(
            'SIBYL_OPERATOR_KEY',
            'no quick market opens without it (SIBYL_QUICK_MARKETS is true)',
          ),
        ]
      : []),
    ...(hasRole('chain') && resolution.autoSettle && keys.resolution === ''
      ? [gap('SIBYL_RESOLUTION_KEY', 'resolutions wait without it (SIBYL_AUTO_SETTLE is true)')]
      : []),
  ]
}

/**
 * Finds private keys that two settings share: two senders with one key would use the same nonces and lose transactions.
 */
function sharedKeys({ keys }: Settings): Gap[] {
  const owners = new Map<string, string>()
  const named: [string, string][] = [
    ['SIBYL_SETTLEMENT_KEY', keys.settlement],
    ...keys.relayer.map((key): [string, string] => ['SIBYL_RELAYER_KEYS', key]),
    ['SIBYL_OPERATOR_KEY', keys.operator],
    ['SIBYL_RESOLUTION_KEY', keys.resolution],
  ]
  return named.flatMap(([setting, text]) => {
    const key = text.toLowerCase()
    const owner = owners.get(key) ?? setting
    if (key !== '') owners.set(key, owner)
    if (owner === setting) return []
    return [{ setting, problem: `is also the key of ${owner}; each needs its own key` }]
  })
}

/** Finds price providers that have an address but no API key, although they need one. */
function missingPriceKeys({ feeds }: Settings): Gap[] {
  if (!feeds.live) return []
  return PRICE_SOURCES.filter(
    (source) => feeds[source].url !== '' && feeds[source].apiKey === '',
  ).map((source) => ({
    setting: apiKeySetting(source),
    problem:
      `is not set; the price provider ${new URL(feeds[source].url).host} requires this API key ` +
      '(SIBYL_FEEDS_LIVE is true)',
  }))
}

/**
 * Finds chains copied from the guide: chains with example URLs of providers, and non-local chains with the contracts of
 * the local chain.
 */
function chainPlaceholders({ chains, chainRpc }: Settings): Gap[] {
  const local = devnet.chains?.[0]
  const settings = [
    ...chainRpc.map((url) => ({ setting: 'SIBYL_CHAIN_RPC', url })),
    ...chains.flatMap(({ rpcUrls }) => rpcUrls.map((url) => ({ setting: 'SIBYL_CHAINS', url }))),
  ]
  const examples = settings.filter(({ url }) => isExample(url))
  const copied = chains.filter(
    ({ chainId, contracts }) =>
      chainId !== local?.chainId &&
      contracts.settlement.toLowerCase() === local?.contracts.settlement.toLowerCase(),
  )
  return [
    ...examples.map(({ setting, url }) => ({
      setting,
      problem: `${new URL(url).origin} is a placeholder; name your provider`,
    })),
    ...copied.map(({ chainId }) => ({
      setting: 'SIBYL_CHAINS',
      problem:
        `chain ${chainId} has the contracts of the local chain; name the contracts that were ` +
        'deployed on this chain instead',
    })),
  ]
}

/** True for hosts that are reserved for examples and belong to no operator (RFC 2606). */
function isExample(url: string): boolean {
  if (!URL.canParse(url)) return false
  return /(^|\.)(example|example\.(com|net|org)|invalid)$/.test(new URL(url).hostname)
}
