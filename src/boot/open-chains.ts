/**
 * Opens the chains of this run before any thread starts: the local chain of the devnet, the chains in the settings, or
 * none. Returns the settings for the threads, with the chains' contracts and keys. Makes sure that the data folder
 * belongs to these chains. Code that uses chains is loaded only if there is a chain.
 */

import { existsSync } from 'node:fs'
import { DEVNET_CHAIN_ID } from '#config/devnet.ts'
import { SettingsError } from '#config/settings.ts'
import type { Settings } from '#config/settings-schema.ts'
import {
  type ChainRecord,
  hasData,
  moveAside,
  readChainRecord,
  writeChainRecord,
} from '#devnet/chain-record.ts'
import type { Devnet } from '#devnet/open-devnet.ts'
import { requireDevnetPackages } from '#devnet/packages.ts'
import { Fault } from '#domain/fault.ts'
import { lockPartition, partitionPaths } from '#log/log-folder.ts'
import { type ClockMemory, moveClock } from '#runtime/clock.ts'
import type { SupervisorLog } from '#runtime/supervised.ts'

type ChainSettings = Settings['chains'][number]

export type OpenChains = {
  readonly settings: Settings
  /** The local chain that this run started or found running; undefined if there is none. */
  readonly devnet: Devnet | undefined
  /**
   * Releases the local chain, which then keeps running for `devnet.lingerSeconds`, so that the next start can
   * use it.
   */
  release(): void
  /** Ends the local chain. */
  end(): Promise<void>
}

const FOLLOW_AGAIN_MS = 1_000
const MEET_TIMEOUT_MS = 5_000
/**
 * Maximum time in milliseconds for retries of the first requests to a chain. It allows a busy provider some retries. It
 * is short, so that an unreachable chain does not delay the start much.
 */
const MEET_BUDGET_MS = 1_000

type Ports = {
  readonly clock: ClockMemory
  readonly log: SupervisorLog
  /** Called with a description of the next step. */
  readonly step: (what: string) => void
}

/** Refuses to start if a local chain is needed and its packages are not installed. */
export function requireLocalChain({ devnet, chainRpc, chains }: Settings): void {
  const isNamed = chainRpc.length > 0 || chains.some(({ rpcUrls }) => rpcUrls.length > 0)
  if (devnet.enabled && !isNamed) requireDevnetPackages()
}

export async function openChains(settings: Settings, ports: Ports): Promise<OpenChains> {
  const { chainRpc } = settings
  let chains = settings.chains
  if (chainRpc.length > 0) chains = chains.map((chain) => ({ ...chain, rpcUrls: chainRpc }))
  if (chains.some(({ rpcUrls }) => rpcUrls.length > 0)) {
    return openNamedChains({ ...settings, chains }, ports)
  }
  const [chain] = chains
  if (settings.devnet.enabled && chain !== undefined) return openLocalChain(settings, chain, ports)
  claimData(settings, {})
  return { settings, devnet: undefined, release: () => {}, end: async () => {} }
}

async function openLocalChain(
  settings: Settings,
  chain: ChainSettings,
  { clock, log, step }: Ports,
): Promise<OpenChains> {
  const { openDevnet } = await import('#devnet/open-devnet.ts')
  const devnet = await openDevnet({
    dataDir: settings.data.dir,
    port: settings.devnet.port,
    chainId: chain.chainId,
    lingerMs: settings.devnet.lingerSeconds * 1_000,
    disputeSeconds: settings.devnet.disputeSeconds,
    onClock: forward(clock),
    step,
    onLost: () =>
      log.error({}, 'the local chain has ended: restart the exchange to start a new local chain'),
    clearData: () => clearData(settings.data.dir),
  })
  log.info({ url: devnet.url, again: devnet.again }, 'the local chain is running')
  const contracts = { ...chain.contracts, ...devnet.contracts }
  const local = { ...chain, rpcUrls: [devnet.url], contracts }
  return {
    settings: await withKeys({ ...settings, chains: [local], demoMarkets: false }),
    devnet,
    release: devnet.release,
    end: devnet.end,
  }
}

async function openNamedChains(
  settings: Settings,
  { clock, log, step }: Ports,
): Promise<OpenChains> {
  step('looking for the chains')
  const record: Record<string, ChainRecord[string]> = {}
  const held: (() => void)[] = []
  for (const chain of settings.chains.filter(({ rpcUrls }) => rpcUrls.length > 0)) {
    const met = await meetChain(chain)
    // If the chain is unreachable, the exchange starts without it. The chain's thread waits until the chain is
    // reachable, and the chain's record in the data folder stays unchanged.
    if (met === undefined) log.warn({ chainId: chain.chainId }, 'the chain cannot be reached yet')
    else record[chain.chainId] = { ...met, contracts: chain.contracts }
    if (chain.chainId === DEVNET_CHAIN_ID) held.push(followChainClock(chain, clock))
  }
  claimData(settings, record)
  const release = () => {
    for (const letGo of held) letGo()
  }
  return {
    settings: await withKeys({ ...settings, demoMarkets: false }),
    devnet: undefined,
    release,
    end: async () => release(),
  }
}

/**
 * Returns the hash of the chain's first block, and the origin of the first RPC URL; undefined if the chain is
 * unreachable. Throws if another chain answers or the settlement contract is missing.
 */
async function meetChain(
  chain: ChainSettings,
): Promise<{ genesis: string; url: string } | undefined> {
  const { chainId, rpcUrls, contracts } = chain
  const { asked, makeChainClient } = await import('#chain/clients.ts')
  const { viem } = makeChainClient({
    chainId,
    rpcUrls,
    timeoutMs: MEET_TIMEOUT_MS,
    budgetMs: MEET_BUDGET_MS,
  })
  try {
    const settlement = contracts.settlement as `0x${string}`
    const first = await asked(viem.getBlock({ blockNumber: 0n }))
    const code = await asked(viem.getCode({ address: settlement }))
    if (code === undefined) {
      throw new SettingsError(`SIBYL_CHAINS: chain ${chainId} has no contract at ${settlement}`)
    }
    // Keep only the origin of the URL, because its path may contain a secret.
    return { genesis: first.hash, url: new URL(rpcUrls[0] ?? '').origin }
  } catch (error) {
    if (!(error instanceof Fault)) throw error
    if (error.code !== 'CHAIN_MISMATCH') return undefined
    throw new SettingsError(`SIBYL_CHAIN_RPC: ${error.message}`)
  }
}

/** Follows the clock of a local chain: when the chain's process moves its clock, the exchange's clock moves too. */
function followChainClock({ rpcUrls }: ChainSettings, clock: ClockMemory): () => void {
  const [url = ''] = rpcUrls
  let letGo: () => void = () => {}
  let ended = false
  const again = (): void => {
    if (!ended) setTimeout(() => void follow(), FOLLOW_AGAIN_MS).unref()
  }
  async function follow(): Promise<void> {
    const { leaseChain, probeChain } = await import('#devnet/chain-process.ts')
    const { found } = await probeChain(url)
    if (found === 'stranger' || ended) return
    const lease =
      found === 'chain'
        ? await leaseChain(url, { onClock: forward(clock), onLost: again }).catch(() => undefined)
        : undefined
    if (lease === undefined) again()
    else if (ended) lease.release()
    else letGo = lease.release
  }
  void follow()
  return () => {
    ended = true
    letGo()
  }
}

/**
 * Returns a function that moves the exchange's clock with the chain's clock. The exchange's time never goes back, even
 * if the chain's time does.
 */
function forward(clock: ClockMemory): (aheadSeconds: number) => void {
  let ahead = 0
  return (aheadSeconds) => {
    ahead = Math.max(ahead, aheadSeconds)
    moveClock(clock, ahead)
  }
}

/**
 * Assigns the data folder to these chains. If the folder has data of other chains, moves this data aside. If a chain in
 * the settings has the role `main`, throws instead of moving the data.
 */
function claimData(settings: Settings, chains: ChainRecord): void {
  const { dir } = settings.data
  const before = readChainRecord(dir)
  const known = Object.entries(chains)
  const foreign =
    known.length === 0
      ? before !== undefined && settings.chains.every(({ rpcUrls }) => rpcUrls.length === 0)
      : before === undefined ||
        known.some(([id, { genesis }]) => (before[id]?.genesis ?? genesis) !== genesis)
  if (foreign && hasData(dir)) {
    if (settings.chains.some(({ role }) => role === 'main')) {
      throw new SettingsError(
        `SIBYL_DATA_DIR: the data in ${dir} belongs to other chains than those in the settings; ` +
          'move the data away, or set SIBYL_DATA_DIR to another folder',
      )
    }
    clearData(dir)
    writeIfAny(dir, chains)
    return
  }
  writeIfAny(dir, { ...before, ...chains })
}

/** Moves the contents of the data folder aside. Throws if another process uses the folder. */
function clearData(dir: string): void {
  if (!hasData(dir)) return
  const paths = partitionPaths(dir, 0)
  if (existsSync(paths.database)) lockPartition(paths).release()
  // The message goes to standard error, because standard output may be reserved for JSON.
  process.stderr.write(
    `sibyl: the data of another chain was moved to ${moveAside(dir, new Date())}\n`,
  )
}

function writeIfAny(dir: string, record: ChainRecord): void {
  if (Object.keys(record).length > 0) writeChainRecord(dir, record)
}

/**
 * Returns the settings with the devnet's publicly known private keys in place of missing keys. If any chain
 * is not the devnet, returns the settings unchanged.
 */
async function withKeys(settings: Settings): Promise<Settings> {
  const { keys, chains } = settings
  if (!chains.every(({ chainId }) => chainId === DEVNET_CHAIN_ID)) return settings
  const { DEPLOYER, devnetKey, OPERATOR, RELAYER, RESOLVER } = await import('#devnet/accounts.ts')
  return {
    ...settings,
    keys: {
      settlement: keys.settlement === '' ? devnetKey(DEPLOYER) : keys.settlement,
      relayer: keys.relayer.length === 0 ? [devnetKey(RELAYER)] : keys.relayer,
      operator: keys.operator === '' ? devnetKey(OPERATOR) : keys.operator,
      resolution: keys.resolution === '' ? devnetKey(RESOLVER) : keys.resolution,
    },
  }
}
