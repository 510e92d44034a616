/** Top of the page: navigation, state of the connection, and the account. */

import { useRef } from 'preact/hooks'
import { money, NOTHING, shortAddress } from '../format.ts'
import { account } from '../state/account.ts'
import { chain, chosenChainId, config, connection } from '../state/exchange.ts'
import { funds } from '../state/funds.ts'
import { marketsLink, PORTFOLIO_LINK, route } from '../state/router.ts'
import { nextTheme, theme } from '../state/theme.ts'
import { AccountDialog } from './account-dialog.tsx'
import { Shortcuts } from './shortcuts.tsx'

export function Header() {
  return (
    <header class="header">
      <a class="brand" href={marketsLink.value}>
        <Mark />
        {config.value?.service.name ?? 'Sibyl'}
      </a>
      <nav class="tabs" aria-label="Pages">
        <Tab href={marketsLink.value} isHere={route.value.view === 'markets'}>
          Markets
        </Tab>
        <Tab href={PORTFOLIO_LINK} isHere={route.value.view === 'portfolio'}>
          Portfolio
        </Tab>
      </nav>
      <span class="space" />
      <ChainChoice />
      <StreamState />
      <Shortcuts />
      <ThemeButton />
      <AccountButton />
    </header>
  )
}

function Tab(props: {
  readonly href: string
  readonly isHere: boolean
  readonly children: string
}) {
  return (
    <a href={props.href} aria-current={props.isHere ? 'page' : undefined}>
      {props.children}
    </a>
  )
}

function Mark() {
  return (
    <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
      <rect width="32" height="32" rx="7" class="mark-back" />
      <path d="M7 21l6-7 5 4 7-9" class="mark-line" />
    </svg>
  )
}

/**
 * Lets the user choose the chain. If the exchange has only one chain, shows a badge for a test chain, and nothing for
 * any other chain.
 */
function ChainChoice() {
  const chains = config.value?.chains ?? []
  const here = chain.value
  if (chains.length < 2) {
    return here?.role === 'test' ? <span class="badge wide">Test chain</span> : null
  }
  return (
    <select
      aria-label="Chain"
      value={here?.chainId}
      onChange={(event) => {
        chosenChainId.value = Number(event.currentTarget.value)
      }}
    >
      {chains.map(({ chainId, role }) => (
        <option key={chainId} value={chainId}>
          {role === 'test' ? `Test chain ${chainId}` : `Chain ${chainId}`}
        </option>
      ))}
    </select>
  )
}

const STATES = { connecting: 'Connecting', open: 'Live', lost: 'Offline' } as const

function StreamState() {
  const { state, roundTripMs } = connection.value
  const trip = roundTripMs === undefined ? NOTHING : `${Math.max(1, Math.round(roundTripMs))} ms`
  const where = chain.value === undefined ? '' : `, chain ${chain.value.chainId}`
  return (
    <span class="stream" title={`Connection to the exchange: round trip ${trip}${where}`}>
      <span class={`dot dot-${state}`} aria-hidden="true" />
      <span>{STATES[state]}</span>
      <span class="trip">{state === 'open' ? trip : ''}</span>
    </span>
  )
}

const THEME_SIGNS = { system: '◐', dark: '●', light: '○' } as const

function ThemeButton() {
  return (
    <button
      type="button"
      class="plain theme"
      onClick={nextTheme}
      aria-label={`Colours: ${theme.value}. Change`}
      title={`Colours: ${theme.value}`}
    >
      {THEME_SIGNS[theme.value]}
    </button>
  )
}

function AccountButton() {
  const dialog = useRef<HTMLDialogElement>(null)
  const chosen = account.value
  const has = funds.value
  return (
    <>
      <button
        type="button"
        id="account-button"
        class={chosen === undefined ? 'main' : 'account'}
        aria-haspopup="dialog"
        onClick={() => dialog.current?.showModal()}
      >
        {chosen === undefined ? (
          'Connect'
        ) : (
          <>
            <span class="num funds">{has === undefined ? NOTHING : money(has.stablecoin)}</span>
            <span class="num who">{shortAddress(chosen.address)}</span>
          </>
        )}
      </button>
      <AccountDialog dialog={dialog} />
    </>
  )
}
