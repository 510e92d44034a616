// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {IERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/IERC20Permit.sol";
import {IERC1155} from "@openzeppelin/contracts/token/ERC1155/IERC1155.sol";
import {BoundedCalls} from "./BoundedCalls.sol";
import {CTHelpers} from "./CTHelpers.sol";
import {IConditionalTokens} from "./interfaces/IConditionalTokens.sol";
import {InvalidConfiguration, Permit, Reason} from "./SettlementTypes.sol";

/// Moves collateral and outcome tokens of traders, and submits their permits. Each call to a token has its own gas
/// limit. If the funds of a fill do not move, finds out what the trader lacks.
abstract contract SettlementFunds {
    uint256 internal constant TRANSFER_GAS = 100_000;
    uint256 internal constant PERMIT_GAS = 100_000;
    uint256 private constant PROBE_GAS = TRANSFER_GAS + 30_000;

    IERC20 public immutable collateral;
    IConditionalTokens public immutable conditionalTokens;

    error OnlySelf();
    error CollateralMoveFailed();
    error SharesMoveFailed();
    error ProbePassed();
    error ProbeFailed();

    modifier onlySelf() {
        if (msg.sender != address(this)) revert OnlySelf();
        _;
    }

    constructor(IERC20 collateral_, IConditionalTokens conditionalTokens_) {
        if (address(collateral_).code.length == 0 || address(conditionalTokens_).code.length == 0) {
            revert InvalidConfiguration();
        }
        collateral = collateral_;
        conditionalTokens = conditionalTokens_;
    }

    /// Tests whether the collateral can be moved for `account` at all: a stablecoin may have
    /// blocked the account. Moves zero from the account to itself. Always reverts, with
    /// `ProbePassed` or `ProbeFailed`.
    function probeCollateral(address account) external onlySelf {
        if (_moveCollateral(account, account, 0)) revert ProbePassed();
        revert ProbeFailed();
    }

    function _tryPermit(Permit calldata p) internal {
        BoundedCalls.call(
            address(collateral),
            PERMIT_GAS,
            abi.encodeCall(
                IERC20Permit.permit, (p.owner, address(this), p.value, p.deadline, p.v, p.r, p.s)
            )
        );
    }

    function _moveCollateral(address from, address to, uint256 amount) internal returns (bool) {
        (bool success, uint256 length, uint256 word) = BoundedCalls.call(
            address(collateral),
            TRANSFER_GAS,
            abi.encodeCall(IERC20.transferFrom, (from, to, amount))
        );
        // Some tokens return nothing when they succeed, so an empty result counts as success. Others return false when
        // they fail.
        return success && (length == 0 || (length >= 32 && word == 1));
    }

    function _moveShares(address from, address to, uint256 id, uint256 amount)
        internal
        returns (bool success)
    {
        (success,,) = BoundedCalls.call(
            address(conditionalTokens),
            TRANSFER_GAS,
            abi.encodeCall(IERC1155.safeTransferFrom, (from, to, id, amount, ""))
        );
    }

    function _collateralShortage(address account, uint256 amount) internal view returns (Reason) {
        address token = address(collateral);
        if (BoundedCalls.read(token, abi.encodeCall(IERC20.balanceOf, (account))) < amount) {
            return Reason.InsufficientCollateral;
        }
        bytes memory allowance = abi.encodeCall(IERC20.allowance, (account, address(this)));
        if (BoundedCalls.read(token, allowance) < amount) return Reason.InsufficientAllowance;
        return Reason.None;
    }

    function _sharesShortage(address account, uint256 id, uint256 amount)
        internal
        view
        returns (Reason)
    {
        address token = address(conditionalTokens);
        if (BoundedCalls.read(token, abi.encodeCall(IERC1155.balanceOf, (account, id))) < amount) {
            return Reason.InsufficientShares;
        }
        bytes memory approval = abi.encodeCall(IERC1155.isApprovedForAll, (account, address(this)));
        if (BoundedCalls.read(token, approval) == 0) return Reason.SharesNotApproved;
        return Reason.None;
    }

    function _probe(address account) internal returns (bool) {
        (,, uint256 word) = BoundedCalls.call(
            address(this), PROBE_GAS, abi.encodeCall(this.probeCollateral, (account))
        );
        return bytes4(bytes32(word)) == ProbePassed.selector;
    }

    /// Returns the ERC-1155 id of an outcome of a market. Computing an id takes several thousand
    /// gas, and a batch needs few different ids. So ids are cached until the end of the
    /// transaction.
    function _positionId(bytes32 marketId, uint8 outcome) internal returns (uint256 id) {
        bytes32 slot = keccak256(abi.encode(marketId, outcome));
        assembly ("memory-safe") {
            id := tload(slot)
        }
        if (id != 0) return id;
        id = CTHelpers.getPositionId(
            collateral, CTHelpers.getCollectionId(bytes32(0), marketId, 1 << outcome)
        );
        assembly ("memory-safe") {
            tstore(slot, id)
        }
    }
}
